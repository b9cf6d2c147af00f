public import LogStore
public import Postgres

/// Moves the mirrors of a namespace along with it. Those whose tables are in the namespace's own database get tables in the
/// target, which follow the copy while clients still write to the source; the old tables go once the copy lives. Histories
/// take along what their records were. Those whose tables are in a third database keep them, and go on with the copy.
///
/// Belongs to one thread, which it blocks.
public final class MirrorMover: MoveCompanion {
    let source: MirrorAdministration
    let target: MirrorAdministration
    /// The target's name, for people.
    let place: String
    let onRows: (_ mirror: String, _ rows: Int) -> Void
    /// What somebody has made on the source's tables and the target's do not have, as sentences; as far as this mover knows.
    public private(set) var lost: [String] = []
    /// Kept, as writers stand while they are used.
    private var connections: (there: PostgresConnection, here: PostgresConnection)?

    /// - Parameter onRows: told now and then how many rows of a mirror there are in the target.
    public init(
        from source: MirrorAdministration, to target: MirrorAdministration, called place: String,
        onRows: @escaping (_ mirror: String, _ rows: Int) -> Void
    ) {
        self.source = source
        self.target = target
        self.place = place
        self.onRows = onRows
    }

    /// Ends its connections; those of the administrations stay.
    public func close() {
        connections?.there.close()
        connections?.here.close()
        connections = nil
    }

    /// To the source and to the target.
    private func connected() throws -> (there: PostgresConnection, here: PostgresConnection) {
        if let connections, connections.there.isOpen, connections.here.isOpen { return connections }
        close()
        let there = try source.connect()
        do {
            let opened = (there: there, here: try target.connect())
            connections = opened
            return opened
        } catch {
            there.close()
            throw error
        }
    }

    /// Looks whether they can move: nothing reads the tables, and the target has nothing of their names.
    public func check(sourceID: Int64) throws {
        do {
            for mirror in try source.mirrors(of: sourceID) { try check(mirror) }
        } catch MirrorError.refused(let reason) {
            throw LogStoreError.misplaced(reason)
        }
    }

    private func check(_ mirror: CatalogMirror) throws {
        guard mirror.target == nil else {
            let elsewhere = try source.connect(mirror)
            defer { elsewhere.close() }
            _ = try cursor(of: mirror, elsewhere)
            return
        }
        let (there, here) = try connected()
        let definition = try cursor(of: mirror, there).definition
        try refuseReaders(of: mirror, definition)
        try refuseNames(of: mirror, definition, here)
    }

    /// Makes sure that nothing in the source needs a table, and that it belongs to whoever moves it: a mover carries out what the
    /// definition and the indexes say.
    private func refuseReaders(of mirror: CatalogMirror, _ definition: MirrorDefinition) throws {
        let (there, here) = try connected()
        try TableReaders.refuseReaders(of: definition, movingTo: place, there)
        let table = MirrorTable(definition, name: definition.table, label: "").qualifiedName
        let owner = try there.execute(
            """
            select pg_get_userbyid(relowner), current_user from pg_class
            join pg_namespace on pg_namespace.oid = relnamespace where nspname = $1 and relname = $2
            """, [.text(definition.schema), .text(definition.table)])
        guard owner.rowCount == 1 else {
            throw MirrorError.refused(
                "The table \(table) of mirror \"\(mirror.name)\" is gone: drop the mirror, or make it anew with 'pathmirror replay mirror'."
            )
        }
        let (theirs, mine) = (try owner.string(0, 0), try owner.string(0, 1))
        let user = try here.execute("select current_user").string(0, 0)
        guard theirs == mine, theirs == user else {
            throw MirrorError.refused(
                "The table \(table) belongs to \(theirs), and whoever moves it is \(mine), and \(user) in \(place): a mirror moves only where all three are one role. Otherwise drop the mirror, and apply it again afterwards."
            )
        }
    }

    /// Makes sure that in the target nothing has the names of a mirror's table and indexes. It has no table there yet.
    private func refuseNames(
        of mirror: CatalogMirror, _ definition: MirrorDefinition, _ here: PostgresConnection
    ) throws {
        let others = try target.mirrors().filter { $0.id != mirror.id }
        do {
            // No namespace has the number 0: as for a mirror that nobody has heard of.
            _ = try MirrorPlan.make(definition, namespace: (0, mirror.namespace), mirrors: others, target: here)
        } catch MirrorError.refused(let reason) {
            throw MirrorError.refused("In \(place): \(reason)")
        }
    }

    /// Where a mirror of the source is.
    ///
    /// - Throws: ``MirrorError/refused(_:)`` where it is still being made.
    private func cursor(of mirror: CatalogMirror, _ there: PostgresConnection) throws -> MirrorCursor {
        guard let cursor = try MirrorCursor.of(mirror, there) else {
            throw MirrorError.refused(
                "Mirror \"\(mirror.name)\" of \"\(mirror.namespace)\" has no table yet: wait until it is made, or drop it."
            )
        }
        return cursor
    }

    /// Makes the tables in the target, of the copy and of what the source knows of histories.
    public func prepare(_ copy: MovingCopy, catchUp: () throws -> Void) throws -> Bool {
        let wanted = try own(source, copy.sourceID)
        for mirror in try own(target, copy.targetID) where !wanted.contains(where: { $0.id == mirror.id }) {
            try remove(mirror, from: target) {
                try MovedMirrors.remove(mirror.id, from: copy, $0)
            }
        }
        var hasMade = false
        for mirror in wanted where try !isMade(mirror, moved(mirror, copy), copy) {
            try make(mirror, copy, catchUp)
            hasMade = true
        }
        return hasMade
    }

    /// Those with tables in the namespace's own database.
    private func own(_ place: MirrorAdministration, _ namespace: Int64) throws -> [CatalogMirror] {
        try place.mirrors(of: namespace).filter { $0.target == nil }
    }

    /// Whether the target has the table that the source has.
    private func isMade(_ mirror: CatalogMirror, _ moved: CatalogMirror?, _ copy: MovingCopy) throws -> Bool {
        let (there, here) = try connected()
        guard let moved, moved.name == mirror.name, let made = try MirrorCursor.of(moved, here), made.hasTable,
            try made.definition == cursor(of: mirror, there).definition,
            // What the source's log does not have any more the copy will not have, either.
            let record = try source.source.namespace(id: copy.sourceID), record.retainedFrom <= made.seq + 1
        else { return false }
        let table = MirrorTable(made.definition, name: made.definition.table, label: "")
        return try here.execute("select to_regclass($1) is not null", [.text(table.qualifiedName)]).bool(0, 0)
    }

    private func make(_ mirror: CatalogMirror, _ copy: MovingCopy, _ catchUp: () throws -> Void) throws {
        let (there, here) = try connected()
        let definition = try cursor(of: mirror, there).definition
        if let former = try self.moved(mirror, copy) {
            try remove(former, from: target) { try MovedMirrors.hold(copy, $0) }
        }
        // Once more: it may have come, or changed, since the move began.
        try refuseReaders(of: mirror, definition)
        try refuseNames(of: mirror, definition, here)
        try MovedMirrors.add(
            mirror.id, isHistory: definition.keeps != nil, to: copy, source: there, target: here
        ) { [onRows] in onRows(mirror.name, $0) }
        // What is known of its records may be ahead of the copy.
        if definition.keeps != nil { try catchUp() }
        guard let moved = try self.moved(mirror, copy) else { throw MirrorError.moved }
        let handmade = try HandmadeIndexes(of: definition, shadow: Leftovers.shadowName(mirror.id), there)
        _ = try target.build(moved, definition, bringing: handmade) { [onRows] progress in
            if case .copying(let rows) = progress { onRows(mirror.name, rows) }
        }
        try MovedMirrors.resume(mirror.id, of: copy, here)
    }

    /// A mirror of the source as the copy has it.
    private func moved(_ mirror: CatalogMirror, _ copy: MovingCopy) throws -> CatalogMirror? {
        try target.mirrors(of: copy.targetID).first { $0.id == mirror.id }
    }

    /// Takes the locks for building, and compares what the two databases have.
    public func hold(_ copy: MovingCopy, _ source: PostgresConnection) throws -> Bool {
        let mirrors = try own(self.source, copy.sourceID)
        for mirror in mirrors {
            guard try BuildLock.holds(mirror.id, source, .untilTheTransactionEnds) else { return false }
        }
        // As they are now that nobody changes them.
        let held = try own(self.source, copy.sourceID)
        let moved = try own(target, copy.targetID)
        guard held.map(\.id) == mirrors.map(\.id), held.map(\.id) == moved.map(\.id) else { return false }
        for mirror in held { try refuseReaders(of: mirror, cursor(of: mirror, connected().there).definition) }
        return try zip(held, moved).allSatisfy { try isMade($0, $1, copy) }
    }

    /// Removes the target's tables.
    public func goBack(_ copy: MovingCopy) throws {
        for mirror in try own(target, copy.targetID) {
            try remove(mirror, from: target) { try MovedMirrors.hold(copy, $0) }
        }
    }

    /// Has mirrors in third databases go on with the copy, and removes the source's tables.
    public func finish(_ copy: MovingCopy) throws {
        let mirrors = try source.mirrors(of: copy.sourceID)
        for mirror in mirrors where mirror.target != nil {
            guard try moved(mirror, copy) != nil else {
                // Somebody has dropped it in its new place, where nothing was known of the table yet.
                try remove(mirror, from: source)
                continue
            }
            let there = try source.connect(mirror)
            defer { there.close() }
            try MovedMirrors.follow(mirror.id, copy, there)
        }
        for mirror in mirrors where mirror.target == nil {
            try noteLosses(of: mirror, copy)
            try remove(mirror, from: source)
        }
    }

    private func noteLosses(of mirror: CatalogMirror, _ copy: MovingCopy) throws {
        let (there, here) = try connected()
        guard let definition = try MirrorCursor.of(mirror, there)?.definition else { return }
        var kept: [String] = []
        if let moved = try moved(mirror, copy) {
            kept = try HandmadeIndexes(of: MirrorCursor.of(moved, here)?.definition, shadow: "", here).names
        }
        let others = try HandmadeIndexes.losses(of: definition, there)
        let indexes = try HandmadeIndexes(of: definition, shadow: "", there).names
            .filter { name in !kept.contains(name) && !others.contains { $0.contains(" \(name) ") } }
            .map { "The index \($0) is not on the new table." }
        lost += (indexes + others).map { "\(definition.tableName): \($0)" }
    }

    /// Removes a mirror's table. Waits for a gateway that is in the middle of a step, which may be a long one of a history: its next
    /// one finds that there is nothing to do any more.
    private func remove(
        _ mirror: CatalogMirror, from place: MirrorAdministration,
        _ check: (PostgresConnection) throws -> Void = { _ in }
    ) throws {
        // Nobody has anything to wait for where the namespace still is where it was.
        let attempts = place === source ? 60 : 6
        for attempt in 1... {
            do {
                // It waits for five seconds.
                return try place.dropTable(of: mirror, then: "run the command again", check)
            } catch let error as PostgresError where error.sqlState == "55P03" && attempt < attempts {
                continue
            }
        }
    }
}
