public import LogStore
public import Postgres
import Tree

/// The operations that operators run on mirrors. Belongs to one thread, which it blocks.
public final class MirrorAdministration {
    public let source: LogConnection
    let url: PostgresURL
    private let connector: TargetConnector
    private let connectionSettings: LogConnection.Settings
    /// Called with each connection's cancel handle, so that the caller can stop its statements.
    private let onConnection: (PostgresCancelHandle) -> Void

    /// - Parameters:
    ///   - url: the gateway's database, migrated.
    ///   - onConnection: called for each connection that is opened, so that the caller can stop its statements.
    public init(
        _ url: PostgresURL, environment: [String: String], faults: (any CallFaults)? = nil,
        onConnection: @escaping (PostgresCancelHandle) -> Void = { _ in }
    ) throws {
        var settings = LogConnection.Settings()
        settings.connection = .forMirrors
        settings.connection.faults = faults
        connectionSettings = settings
        self.url = url
        connector = TargetConnector(url: url, settings: settings.connection, environment: environment)
        source = try LogConnection(url.withApplicationName("pathmirror mirror"), settings: settings)
        self.onConnection = onConnection
        onConnection(source.cancelHandle)
    }

    /// Closes the connection to the gateway's database.
    public func close() { source.close() }

    func connect(_ mirror: CatalogMirror) throws -> PostgresConnection {
        try connect(mirror.target, "mirror")
    }

    /// - Parameter name: the application name that PostgreSQL shows for the connection.
    private func connect(_ target: String?, _ name: String) throws -> PostgresConnection {
        let connection = try connector.connect(target, as: name)
        onConnection(connection.cancelHandle)
        return connection
    }

    /// Returns all mirrors of all namespaces.
    public func mirrors() throws -> [CatalogMirror] { try source.catalogMirrors() }

    /// Returns the mirror with a name.
    ///
    /// - Throws: ``MirrorError/unknownMirror(name:namespace:)`` if the namespace has no such mirror;
    ///   ``LogStoreError/unknownNamespace(_:)`` if there is no such namespace.
    public func mirror(named name: String, of namespace: String) throws -> CatalogMirror {
        guard let mirror = try mirrors().first(where: { $0.name == name && $0.namespace == namespace }) else {
            guard try source.namespace(named: namespace) != nil else { throw LogStoreError.unknownNamespace(namespace) }
            throw MirrorError.unknownMirror(name: name, namespace: namespace)
        }
        return mirror
    }

    /// Stops or restarts a mirror's following of the log.
    public func setPaused(_ mirror: CatalogMirror, _ isPaused: Bool) throws {
        try source.setMirrorPaused(mirror.namespaceID, mirror.id, isPaused)
    }

    /// Returns the changes that applying a definition would make. `namespace` is for definitions without a namespace.
    public func plan(_ definition: MirrorDefinition, namespace: String) throws -> MirrorPlan {
        let name = definition.namespace ?? namespace
        guard let record = try source.namespace(named: name) else { throw LogStoreError.unknownNamespace(name) }
        let target = try connect(definition.target, "mirror plan")
        defer { target.close() }
        return try MirrorPlan.make(definition, namespace: (record.id, name), mirrors: mirrors(), target: target)
    }

    /// Executes a plan. Returns nil if no table had to be built.
    public func execute(
        _ plan: MirrorPlan, progress: @escaping (MirrorBuilder.Progress) -> Void = { _ in }
    ) throws -> MirrorBuilder.Outcome? {
        switch plan.action {
        case .unchanged:
            // The catalog has an older definition if an earlier command ended between the two databases.
            if let mirror = plan.existing, mirror.definition.json != plan.definition.json {
                try source.redefineMirror(mirror.id, definition: plan.definition.json)
            }
            return nil
        case .alter(let statements):
            guard let mirror = plan.existing else { return nil }
            do {
                try alter(mirror, from: plan.obeyed, to: plan.definition, plan.renames, statements)
                return nil
            } catch let error as PostgresError where error.isAboutData {
                // A new index can't hold a row's value: a new table leaves that row out.
                return try rebuild(mirror, plan, progress)
            }
        case .create, .rebuild:
            var mirror = plan.existing
            if mirror == nil {
                try add(plan)
                mirror = try self.mirror(named: plan.definition.name, of: plan.namespace)
            }
            guard let mirror else { return nil }
            do {
                return try rebuild(mirror, plan, progress)
            } catch {
                if plan.existing == nil { forgetUnmade(mirror) }
                throw error
            }
        }
    }

    private func add(_ plan: MirrorPlan) throws {
        do throws(LogStoreError) {
            _ = try source.addMirror(
                plan.namespaceID, name: plan.definition.name, definition: plan.definition.json,
                target: plan.definition.target)
        } catch {
            if case .database(let cause) = error, cause.sqlState == "23505" {
                throw MirrorError.refused(
                    "Another process added mirror \"\(plan.definition.name)\" after the plan was made: apply the definition again."
                )
            }
            throw error
        }
    }

    /// Removes a mirror without a table from the catalog, unless another session is building it.
    private func forgetUnmade(_ mirror: CatalogMirror) {
        // A second request to stop the command may interrupt this, so it is retried.
        for _ in 0..<3 {
            guard source.isOpen, let target = try? connect(mirror) else { return }
            defer { target.close() }
            do {
                guard try BuildLock.holds(mirror.id, target, .untilReleased),
                    try MirrorCursor.of(mirror, target) == nil
                else { return }
                return try source.removeMirror(mirror.namespaceID, mirror.id)
            } catch {
                continue
            }
        }
    }

    /// Builds a new table as planned.
    private func rebuild(
        _ mirror: CatalogMirror, _ plan: MirrorPlan, _ progress: @escaping (MirrorBuilder.Progress) -> Void
    ) throws -> MirrorBuilder.Outcome {
        // Columns are renamed first, so that views and indexes refer to them by their new names.
        if let obeyed = plan.obeyed, !plan.renames.isEmpty {
            let renamed = obeyed.renamed(plan.renames, as: plan.definition)
            try alter(mirror, from: obeyed, to: renamed, plan.renames, [])
        }
        return try build(mirror, plan.definition, progress: progress)
    }

    func build(
        _ mirror: CatalogMirror, _ definition: MirrorDefinition, verifies: Bool = false,
        rowsAtOnce: Int = MirrorBuilder.maxRowsAtOnce, progress: @escaping (MirrorBuilder.Progress) -> Void
    ) throws -> MirrorBuilder.Outcome {
        let target = try connect(mirror.target, "mirror build")
        defer { target.close() }
        if definition.keeps != nil {
            return try HistoryBuilder(
                source: source, target: target, mirror: mirror, definition: definition, progress: progress
            ).run(follows: true)
        }
        let errorWriter = try connect(mirror.target, "mirror build")
        defer { errorWriter.close() }
        let lookup = try LogConnection(
            url.withApplicationName("pathmirror mirror build"), settings: connectionSettings)
        defer { lookup.close() }
        onConnection(lookup.cancelHandle)
        return try MirrorBuilder(
            source: source, lookup: lookup, target: target, errorWriter: errorWriter, mirror: mirror,
            definition: definition, verifies: verifies, rowsAtOnce: rowsAtOnce, progress: progress
        ).run()
    }

    /// Renames columns, executes `statements` and stores the table's new definition, in one transaction.
    private func alter(
        _ mirror: CatalogMirror, from obeyed: MirrorDefinition?, to definition: MirrorDefinition,
        _ renames: [ColumnRename], _ statements: [String]
    ) throws {
        let target = try connect(mirror.target, "mirror alter")
        defer { target.close() }
        try target.executeScript("begin; set local lock_timeout = '5s'")
        // A build in progress would undo this with its own, next generation.
        guard try BuildLock.holds(mirror.id, target, .untilTheTransactionEnds) else {
            throw BuildLock.refusal(mirror.name)
        }
        try source.checkIsThere(mirror)
        // The cursor is locked before the table: it keeps the mirror's runner away.
        guard let cursor = try MirrorCursor.of(mirror, target, locking: true), cursor.definition == obeyed else {
            throw MirrorError.refused(
                "Another process changed mirror \"\(mirror.name)\" after the plan was made: apply the definition again."
            )
        }
        let table = MirrorTable(cursor.definition, name: cursor.definition.table, label: "")
        let generation = MirrorGeneration(
            namespace: mirror.namespaceID, mirror: mirror.id, generation: cursor.generation)
        let renaming = ColumnRename.steps(renames, table, generation)
        do throws(PostgresError) {
            _ = try target.pipeline(
                renaming + statements.map { .query($0) } + [
                    MirrorCursors.redefineStep(
                        mirror.namespaceID, mirror.id, definition: definition.json,
                        generation: cursor.generation + (renaming.isEmpty ? 0 : 1)), .query("commit"),
                ])
        } catch {
            guard error.sqlState == "55P03" else { throw error }
            throw MirrorError.refused(
                "Another session holds a lock on \(definition.tableName), such as a long query. Nothing was changed: apply the definition again."
            )
        }
        try source.redefineMirror(mirror.id, definition: definition.json)
    }

    /// Removes a mirror whose database no longer exists from the catalog. No runner waits for it from then on, and any remains
    /// of its table are not touched.
    ///
    /// - Throws: ``MirrorError/refused(_:)`` if the database can be reached, because the mirror can then be dropped.
    public func abandon(_ mirror: CatalogMirror) throws {
        guard mirror.target != nil else {
            throw MirrorError.refused(
                "The table of \"\(mirror.name)\" is in the gateways' own database: drop the mirror without --abandon."
            )
        }
        if let target = try? connect(mirror) {
            target.close()
            throw MirrorError.refused(
                "The database of \"\(mirror.name)\" can be reached: drop the mirror without --abandon.")
        }
        try source.removeMirror(mirror.namespaceID, mirror.id)
    }

    /// Removes a mirror and its table.
    @discardableResult
    public func drop(_ mirror: CatalogMirror) throws -> DroppedMirror {
        let dropped = try dropTable(of: mirror)
        try source.removeMirror(mirror.namespaceID, mirror.id)
        return dropped
    }

    /// Removes a mirror's table with its view and the tables of interrupted builds.
    private func dropTable(of mirror: CatalogMirror) throws -> DroppedMirror {
        let target = try connect(mirror.target, "mirror drop")
        defer { target.close() }
        // The table of a build in progress would be left over.
        guard try BuildLock.holds(mirror.id, target, .untilReleased) else { throw BuildLock.refusal(mirror.name) }
        defer { BuildLock.release(mirror.id, target) }
        let cursor = try MirrorCursor.of(mirror, target)
        var steps: [PipelineStep] = [
            MirrorCursors.removeStep(mirror.namespaceID, mirror.id),
            MirrorVersions(namespace: mirror.namespaceID, mirror: mirror.id).forgetStep(),
        ]
        steps += MirrorErrors.forgetSteps(
            MirrorGeneration(namespace: mirror.namespaceID, mirror: mirror.id, generation: 0), .all)
        var table: MirrorTable?
        if let cursor, try !isRivals(cursor.definition, mirror) {
            table = MirrorTable(cursor.definition, name: cursor.definition.table, label: "")
        }
        var dropped = DroppedMirror()
        if let table, let definition = cursor?.definition {
            if let size = try size(of: definition, target) {
                dropped.relations.append(.init(isView: false, name: definition.tableName, size: size))
            }
            if let view = table.versionsView, try table.hasVersionsView(target) {
                steps.append(.query("drop view if exists \(view)"))
                let name = MirrorDefinition.versionsView(of: definition.table)
                dropped.relations.append(.init(isView: true, name: "\(definition.schema).\(name)", size: nil))
            }
            steps.append(.query("drop table if exists \(table.qualifiedName)"))
        }
        for name in try AbandonedTables.find(of: mirror.id, target) {
            steps.append(.query(AbandonedTables.dropSQL(name)))
            dropped.relations.append(.init(isView: false, name: name, size: nil))
        }
        do {
            try target.executeScript("begin; set local lock_timeout = '5s'")
            try source.checkIsThere(mirror)
            _ = try target.pipeline(steps + [.query("commit")])
        } catch {
            if target.isOpen { try target.executeScript("rollback") }
            // dependent_objects_still_exist
            guard let cause = error as? PostgresError, cause.sqlState == "2BP01", let table else { throw error }
            throw try TableReaders.refusal(of: mirror.name, table, target, cause)
        }
        return dropped
    }

    /// Whether a mirror's former table belongs to another mirror by now, because an operator has dropped it by hand meanwhile.
    private func isRivals(_ definition: MirrorDefinition, _ mirror: CatalogMirror) throws -> Bool {
        try mirrors().contains {
            $0.id != mirror.id && $0.target == mirror.target && $0.definition.tableName == definition.tableName
        }
    }
}

extension MirrorAdministration {
    /// Returns the states of all mirrors.
    public func statuses() throws -> [MirrorStatus] { try source.mirrorStatuses() }

    /// Returns a mirror's conversion errors by record, at most `limit` of them, each with the time at which it was found, in
    /// milliseconds since 1970.
    public func conversionErrors(_ mirror: CatalogMirror, limit: Int) throws -> [(
        error: MirrorErrorRecord, foundAt: Int64
    )] {
        let target = try connect(mirror)
        defer { target.close() }
        return try MirrorErrors.list(target, mirror.namespaceID, mirror.id, limit: limit)
    }

    /// Returns the number of errors found since a mirror's table was built that exceeded the limit and were not stored.
    public func unkeptErrors(_ mirror: CatalogMirror) throws -> Int64 {
        let target = try connect(mirror)
        defer { target.close() }
        guard let cursor = try MirrorCursor.of(mirror, target) else { return 0 }
        return try MirrorErrors.unkept(target, ActiveMirror(mirror, cursor).asGeneration)
    }

    /// Reads the records with stored errors again. Returns the number of these records, and the number of errors left.
    ///
    /// - Parameter begins: called with the number of records as soon as it is known.
    public func retryConversionErrors(
        _ mirror: CatalogMirror, begins: (_ records: Int) -> Void = { _ in }
    ) throws -> (records: Int, left: Int) {
        guard mirror.definition.keeps == nil else {
            throw MirrorError.refused(
                "\(mirror.definition.tableName) stores the versions of its records: rebuild all rows from them with 'pathmirror replay mirror \(mirror.name)'."
            )
        }
        let target = try connect(mirror)
        defer { target.close() }
        let moved = try moveAlone(mirror) { one, stepper, record in
            // The locked cursor prevents other sessions from changing the errors.
            let keys = one[0].keys(of: try MirrorErrors.records(target, one[0].asGeneration))
            one[0].isCareful = true
            begins(keys.count)
            return (keys.count, try stepper.advance(&one, in: record, .joined, rereading: [one[0].name: keys]))
        }
        return (moved.result, Int(try MirrorErrors.kept(target, moved.mirror.asGeneration)))
    }
}

/// The size of a mirror's table.
public struct MirrorSize: Sendable, Equatable {
    public let rowCount: Int64
    /// Whether `rowCount` is PostgreSQL's estimate. Rows of large tables are not counted.
    public let isEstimate: Bool
    /// Includes indexes and TOAST data.
    public let byteCount: Int64
}

extension MirrorAdministration {
    /// Returns the size of a mirror's table, or nil if there is no table yet or its database can't be reached.
    public func size(of mirror: CatalogMirror) -> MirrorSize? {
        guard let target = try? connect(mirror) else { return nil }
        defer { target.close() }
        return try? size(of: mirror.definition, target)
    }

    private func size(of definition: MirrorDefinition, _ target: PostgresConnection) throws -> MirrorSize? {
        let table = MirrorTable(definition, name: definition.table, label: "").qualifiedName
        let found = try target.execute(
            "select pg_total_relation_size(oid), reltuples::bigint from pg_class where oid = to_regclass($1)",
            [.text(table)])
        guard found.rowCount == 1 else { return nil }
        let byteCount = try found.int64(0, 0)
        let estimate = try found.int64(0, 1)
        guard byteCount <= Self.mostBytesToCount || estimate < 0 else {
            return MirrorSize(rowCount: estimate, isEstimate: true, byteCount: byteCount)
        }
        let rowCount = try target.execute("select count(*) from \(table)").int64(0, 0)
        return MirrorSize(rowCount: rowCount, isEstimate: false, byteCount: byteCount)
    }

    /// The largest table whose rows are counted. Counting them takes a few milliseconds.
    private static let mostBytesToCount: Int64 = 16 << 20
}
