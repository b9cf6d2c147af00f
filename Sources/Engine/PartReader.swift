import LogStore
import Rules
import Runtime
import Tree

/// Answers reads of parts of namespaces that are being loaded, one after another, on a thread with a connection of its own: so that
/// who wants little need not wait until all is there.
///
/// The answer is as fresh as if the tree were there: it comes from a snapshot that is begun after the question. Whoever reads the
/// tree later finds it no older (`NamespaceTable.endParts`).
final class PartReader {
    private let core: EngineCore
    private let compiler: StoredRulesCompiler
    private var connection: LogConnection?
    /// What the log has said last.
    private var told: String?
    /// Until when none is opened.
    private var pausesUntil: Milliseconds = 0
    /// The rules that were met last, on this connection: a database that was put back may have others there.
    private var known: (namespace: Int64, rules: RulesVersion)?

    /// A connection that nobody has needed for so long is closed.
    private static let idleMilliseconds: Milliseconds = 30_000
    /// For so long after a connection could not be opened none is: opening one may take seconds.
    private static let pauseMilliseconds: Milliseconds = 500

    init(_ core: EngineCore) {
        self.core = core
        let stretches = StretchMeter(name: "part-reader", tooLongMilliseconds: 0) { _, _, _ in }
        compiler = StoredRulesCompiler(core.settings.defaultRules, core.rules, stretches, core.logger)
    }

    /// Works until the engine stops.
    func run() {
        while true {
            switch core.parts.next(milliseconds: connection == nil ? nil : Self.idleMilliseconds) {
            case .item(let item): answer(item)
            case .nothing: drop()
            case .stop: return drop()
            }
        }
    }

    private func drop() {
        connection?.close()
        connection = nil
        known = nil
    }

    private func answer(_ item: PartQueue.Item) {
        // One that was opened before may be of before an outage, which says nothing about the database.
        let isOld = connection != nil
        guard !tries(item) else { return }
        // What breaks connections is not tried by everybody who asks.
        if !isOld || !tries(item) { core.namespaces.partIsTooLarge(at: item.read.path, of: item.name) }
    }

    /// False where the connection was lost. The load finds out what is wrong with the database, and says so.
    private func tries(_ item: PartQueue.Item) -> Bool {
        guard item.read.isWaiting, core.namespaces.readsParts(of: item.name, item.namespace) else { return true }
        guard let current = connected() else {
            core.parts.clear()
            return true
        }
        do throws(LogStoreError) {
            guard let part = try read(item, current),
                core.namespaces.answersPart(of: item.name, item.namespace, at: part.seq)
            else { return true }
            core.metrics.partReads.add()
            item.read.complete(.success(.part(part)))
        } catch {
            tell(error)
            guard error.isConnectionLost || !current.isOpen else { return true }
            drop()
            return false
        }
        return true
    }

    /// Each reason once, until there is another.
    private func tell(_ error: LogStoreError) {
        let reason = "\(error)"
        guard reason != told else { return }
        told = reason
        core.logger.warning("a part can't be read before the whole is loaded", [("error", reason)])
    }

    /// The connection, where there is one or can be. Who waits here can do without: nobody calls the database down for it.
    private func connected() -> LogConnection? {
        if let connection, connection.isOpen { return connection }
        drop()
        guard core.health.isUp, Clock.monotonicMilliseconds >= pausesUntil else { return nil }
        do throws(LogStoreError) {
            connection = try core.connect("part reader")
        } catch {
            pausesUntil = Clock.monotonicMilliseconds + Self.pauseMilliseconds
        }
        return connection
    }

    /// Nil where it has to wait for the load.
    private func read(_ item: PartQueue.Item, _ connection: LogConnection) throws(LogStoreError) -> NamespacePart? {
        let read = item.read
        let part = try connection.readingParts(of: item.namespace, named: item.name) {
            (head, seq) throws(LogStoreError) -> NamespacePart? in
            let rules = try rules(of: item, at: seq, connection)
            let places = PlacesInDatabase(connection, item.namespace)
            let decision = rules.set.mayRead(
                read.path, query: read.context, lookingUp: places, auth: read.auth, now: Clock.unixMilliseconds)
            if let error = places.error { throw error }
            guard let decision else { return nil }
            let misses =
                rules.enforcesIndexes && read.query.map { !rules.set.isIndexed($0.index, at: read.path) } ?? false
            guard decision.isAllowed, !misses else {
                return NamespacePart(seq: head, rules: rules, decision: decision, node: .null)
            }
            let most = core.settings.parts
            let node = try connection.readPart(
                item.namespace, read.path, mostRows: most.rows, mostBytes: most.bytes)
            guard let node else {
                core.namespaces.partIsTooLarge(at: read.path, of: item.name)
                return nil
            }
            return NamespacePart(seq: head, rules: rules, decision: decision, node: node)
        }
        return part ?? nil
    }

    /// The rules that an entry has brought, compiled.
    private func rules(
        of item: PartQueue.Item, at seq: Int64, _ connection: LogConnection
    ) throws(LogStoreError) -> RulesVersion {
        if let known, known.namespace == item.namespace, known.rules.seq == seq, seq > 0 { return known.rules }
        let stored = seq == 0 ? nil : try connection.rules(item.namespace, at: seq)
        let rules = compiler.version(stored, of: item.name)
        known = (item.namespace, rules)
        return rules
    }
}

/// What rules look up: each place once, and not without end.
private final class PlacesInDatabase: StoredPlaces {
    private let connection: LogConnection
    private let namespace: Int64
    private var known: [Path: Node] = [:]
    private(set) var error: LogStoreError?
    private static let most = 64
    /// Rules can do little with a longer text.
    private static let mostBytes = 64 << 10

    init(_ connection: LogConnection, _ namespace: Int64) {
        self.connection = connection
        self.namespace = namespace
    }

    func node(at path: Path) -> Node? {
        if let node = known[path] { return node }
        guard error == nil, known.count < Self.most, path.description.utf8.count <= PartRead.mostPathBytes else {
            return nil
        }
        do throws(LogStoreError) {
            let node = try connection.readPlace(namespace, path, mostBytes: Self.mostBytes)
            if let node { known[path] = node }
            return node
        } catch {
            self.error = error
            return nil
        }
    }
}
