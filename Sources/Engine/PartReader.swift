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
    private let connection: CommitterConnection
    private let rules: StoredRulesCompiler

    /// A connection that nobody has needed for so long is closed.
    private static let idleMilliseconds: Milliseconds = 30_000

    init(_ core: EngineCore) {
        self.core = core
        connection = CommitterConnection(core, name: "part reader")
        let stretches = StretchMeter(name: "part-reader", tooLongMilliseconds: 0) { _, _, _ in }
        rules = StoredRulesCompiler(core.settings.defaultRules, core.rules, stretches, core.logger)
    }

    /// Works until the engine stops.
    func run() {
        while true {
            switch core.parts.next(milliseconds: connection.isThere ? Self.idleMilliseconds : nil) {
            case .item(let item): answer(item)
            case .nothing: connection.drop()
            case .stop: return connection.drop()
            }
        }
    }

    private func answer(_ item: PartQueue.Item) {
        guard item.read.isWaiting, core.namespaces.readsParts(of: item.name, item.namespace) else { return }
        do throws(LogStoreError) {
            guard let part = try read(item, try connection.get()) else { return }
            guard core.namespaces.answersPart(of: item.name, item.namespace, at: part.seq) else { return }
            core.metrics.partReads.add()
            item.read.complete(.success(.part(part)))
        } catch {
            // The load finds out what is wrong, and says so.
            if error.isConnectionLost || !connection.isThere {
                connection.drop()
                core.parts.clear()
            }
        }
    }

    /// Nil where it has to wait for the load.
    private func read(_ item: PartQueue.Item, _ connection: LogConnection) throws(LogStoreError) -> NamespacePart? {
        let read = item.read
        let part = try connection.readingParts(of: item.namespace) {
            (head, stored) throws(LogStoreError) -> NamespacePart? in
            let rules = rules.version(stored, of: item.name)
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
            guard
                let node = try connection.readPart(
                    item.namespace, read.path, mostRows: most.rows, mostBytes: most.bytes)
            else {
                core.namespaces.partIsTooLarge(at: read.path, of: item.name)
                return nil
            }
            return NamespacePart(seq: head, rules: rules, decision: decision, node: node)
        }
        return part ?? nil
    }
}

/// What rules look up: each place once, and not without end.
private final class PlacesInDatabase: StoredPlaces {
    private let connection: LogConnection
    private let namespace: Int64
    private var known: [Path: Node] = [:]
    private(set) var error: LogStoreError?
    private static let most = 64

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
            let node = try connection.readPlace(namespace, path)
            known[path] = node
            return node
        } catch {
            self.error = error
            return nil
        }
    }
}
