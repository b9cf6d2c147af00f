import LogStore
import Postgres
import TestSupport
import Testing
import Tree

/// One connection to a store of logs, as the contract's tests use it. What this asks for is what a gateway needs of a store;
/// another store keeps the contract when the same tests pass on it.
protocol LogContract: AnyObject {
    /// The namespace of that name, made if it is not there; its id.
    func makeNamespace(_ name: String) throws -> Int64
    /// Where the log ends, and the batch of the entry there.
    func head(_ namespace: Int64) throws -> LogCursor?

    // Writing.
    func commit(_ batch: Batch, isLocked: Bool) throws -> LogConnection.CommitOutcome
    func lockHead(_ namespace: Int64, expectedHead: Int64) throws -> Int64
    func unlockHead()
    func findBatch(_ batch: Batch) throws -> Bool
    /// Imports leaves at and below a path, as one entry or in chunks of so many; what is there goes. The last entry's seq.
    func importLeaves(
        _ leaves: [(path: String, value: Node)], to name: String, at path: Path, rowsPerChunk: Int?
    ) throws -> Int64
    /// Writes an entry whose changes are in parts.
    func commitLarge(_ batch: Batch, _ parts: [[Change]]) throws
    func setRules(_ namespace: Int64, _ source: String) throws -> Int64
    /// Drops all entries but the last so many.
    func prune(_ namespace: Int64, keeping entries: Int64) throws

    // Reading.
    func next(_ follower: inout LogFollower) throws -> LogEvent
    /// The next event of a follower that waits for commits; nil when it has waited.
    func nextOrWait(_ follower: inout LogFollower) throws -> LogEvent?
    /// From now on `nextOrWait` hears of commits.
    func listen() throws
    func parts(_ namespace: Int64, of seq: Int64) throws -> [[Change]]
    func rules(_ namespace: Int64, at seq: Int64) throws -> String?
    /// The stored tree and the place that it is of.
    func tree(_ namespace: Int64) throws -> (root: Node, at: LogCursor)
    /// The tree as it was after an entry.
    func tree(_ namespace: Int64, asOf seq: Int64) throws -> Node
    /// What is wrong with the log and the tree, as sentences.
    func verify(_ namespace: Int64) throws -> [String]
    func close()
}

/// A store that the contract's tests run on, with one store's own way to be opened and damaged.
struct ContractStore: Sendable, CustomTestStringConvertible {
    /// Kinds of damage that verification has to find.
    enum Damage: CaseIterable { case lostEntry, changedLeaf, lostLeaf, strayLeaf, headTooHigh, changedEntry }

    /// An empty store of one test's own.
    struct Opened {
        /// Another connection.
        let connect: () throws -> any LogContract
        /// A connection that is cut at that moment of the next commit, and what lets the store have what was held back.
        let connectCut: (CuttingProxy.Cut) throws -> (connection: any LogContract, release: () -> Void)
        /// Damages what is stored of a namespace, which has entries and leaves.
        let damage: (Damage, Int64) throws -> Void
    }

    let testDescription: String
    let with: @Sendable ((Opened) throws -> Void) throws -> Void

    /// All stores that there are.
    static let all = [postgres]
}

extension ContractStore {
    static let postgres = ContractStore(testDescription: "PostgreSQL") { body in
        try withDatabase { url in
            var proxies: [CuttingProxy] = []
            defer { for proxy in proxies { proxy.stop() } }
            try body(
                Opened(
                    connect: { try PostgresContract(url) },
                    connectCut: { cut in
                        let proxy = try CuttingProxy(url)
                        proxies.append(proxy)
                        let connection = try PostgresContract(proxy.url)
                        proxy.cutNext(cut)
                        return (connection, { proxy.releaseHeld() })
                    },
                    damage: { damage, namespace in
                        let connection = try PostgresConnection(url)
                        defer { connection.close() }
                        try connection.executeScript(Self.sql(damage, namespace))
                    }))
        }
    }

    private static func sql(_ damage: Damage, _ namespace: Int64) -> String {
        let middle = "(select (head + retained_from) / 2 from pathmirror.namespace where id = \(namespace))"
        let leaf = "(select min(path) from pathmirror.node where namespace_id = \(namespace))"
        return switch damage {
        case .lostEntry: "delete from pathmirror.log where namespace_id = \(namespace) and seq = \(middle)"
        case .changedLeaf:
            "update pathmirror.node set value = '\"damaged\"' where namespace_id = \(namespace) and path = \(leaf)"
        case .lostLeaf: "delete from pathmirror.node where namespace_id = \(namespace) and path = \(leaf)"
        case .strayLeaf:
            "insert into pathmirror.node (namespace_id, path, value, version) values (\(namespace), '/stray', '1', 1)"
        case .headTooHigh: "update pathmirror.namespace set head = head + 1 where id = \(namespace)"
        case .changedEntry:
            "update pathmirror.log set changes = '{\"/stray\": 7}' where namespace_id = \(namespace) and seq = \(middle)"
        }
    }
}

/// The contract on `LogConnection`.
final class PostgresContract: LogContract {
    private let connection: LogConnection

    init(_ url: PostgresURL) throws {
        var settings = LogConnection.Settings()
        // Both ways of writing rows, and of sending parts.
        settings.copyThreshold = 20
        connection = try LogConnection(url, settings: settings)
    }

    func makeNamespace(_ name: String) throws -> Int64 { try connection.make(name).id }

    func head(_ namespace: Int64) throws -> LogCursor? {
        try connection.heads([namespace]).first.map { LogCursor(seq: $0.head, batch: $0.batch) }
    }

    func commit(_ batch: Batch, isLocked: Bool) throws -> LogConnection.CommitOutcome {
        let outcome = try connection.commit(batch, isLocked: isLocked)
        if outcome == .committed { try connection.announce([batch.namespace: batch.newHead]) }
        return outcome
    }

    func lockHead(_ namespace: Int64, expectedHead: Int64) throws -> Int64 {
        try connection.lockHead(namespace, expectedHead: expectedHead)
    }

    func unlockHead() { connection.unlockHead() }

    func findBatch(_ batch: Batch) throws -> Bool { try connection.findBatch(batch) }

    func importLeaves(
        _ leaves: [(path: String, value: Node)], to name: String, at path: Path, rowsPerChunk: Int?
    ) throws -> Int64 {
        var settings = Importer.Settings()
        settings.rowsPerChunk = rowsPerChunk
        // Many parts.
        settings.bufferBytes = 64
        let importer = try Importer(connection, named: name, at: path, settings: settings)
        for leaf in leaves { try importer.add(Array(leaf.path.utf8), leaf.value) }
        try importer.finish()
        return importer.lastSeq
    }

    func commitLarge(_ batch: Batch, _ parts: [[Change]]) throws {
        let number = try connection.beginLarge(batch.namespace, head: batch.expectedHead)
        for (index, part) in parts.enumerated() {
            try connection.stagePart(
                batch.namespace, large: number, part: Int32(index), changes: ChangeCodec.encode(part))
        }
        try connection.stageRows(batch.namespace, large: number, batch.rows)
        guard try connection.lockHeadForLarge(batch.namespace) == batch.expectedHead else {
            return connection.unlockHead()
        }
        try connection.commitLarge(batch, large: number, parts: Int32(parts.count))
    }

    func setRules(_ namespace: Int64, _ source: String) throws -> Int64 {
        try connection.setRules(
            namespace, source: Array(source.utf8),
            origin: Origin(uid: nil, isAdmin: true, via: .cli, address: nil))
    }

    func prune(_ namespace: Int64, keeping entries: Int64) throws {
        let record = try #require(try connection.namespace(id: namespace))
        let pruning = Pruning(connection, record)
        try pruning.run(try pruning.plan(.entries(entries), force: false))
    }

    func next(_ follower: inout LogFollower) throws -> LogEvent { try follower.next(on: connection) }

    func nextOrWait(_ follower: inout LogFollower) throws -> LogEvent? { try follower.nextOrWait(on: connection) }

    func listen() throws { try connection.listen(to: [.commits]) }

    func parts(_ namespace: Int64, of seq: Int64) throws -> [[Change]] {
        var parts: [[Change]] = []
        try connection.forEachPart(namespace, of: seq) { parts.append($0) }
        return parts
    }

    func rules(_ namespace: Int64, at seq: Int64) throws -> String? {
        try connection.rules(namespace, at: seq).map { String(decoding: $0.source, as: UTF8.self) }
    }

    func tree(_ namespace: Int64) throws -> (root: Node, at: LogCursor) {
        let tree = try connection.loadTree(namespace)
        return (tree.root, LogCursor(seq: tree.head, batch: tree.batch))
    }

    func tree(_ namespace: Int64, asOf seq: Int64) throws -> Node {
        let record = try #require(try connection.namespace(id: namespace))
        var past = try PastTree(connection, record, for: seq)
        try past.advance(to: seq)
        return past.root
    }

    func verify(_ namespace: Int64) throws -> [String] {
        let record = try #require(try connection.namespace(id: namespace))
        let found = try Verification.run(connection, record)
        return found.problems + found.differences.map { "\($0.path): \($0.logged), \($0.stored)" }
    }

    func close() { connection.close() }
}

extension LogContract {
    func commit(_ batch: Batch) throws -> LogConnection.CommitOutcome { try commit(batch, isLocked: false) }

    /// A namespace of the test's own, and who writes to it.
    func writer(_ name: String = "test") throws -> BatchWriter { BatchWriter(namespace: try makeNamespace(name)) }

    /// All entries from a place on, in order; those behind a gap as well.
    func entries(_ namespace: Int64, after seq: Int64 = 0) throws -> [LoggedEntry] {
        var log = LogFollower(namespace, at: LogCursor(seq: seq)) { $0.gaps = .reported }
        var found: [LoggedEntry] = []
        while true {
            switch try next(&log) {
            case .entries(let entries): found += entries
            case .end: return found
            default: break
            }
        }
    }
}

/// A reader that keeps the tree which the entries lead to, as a gateway does.
struct TreeReader {
    private(set) var root = Node.null
    private(set) var log: LogFollower
    private(set) var loads = 0
    /// Entries that were read one by one.
    private(set) var count = 0
    private let namespace: Int64

    init(_ namespace: Int64, pageEntries: Int = 1_000) {
        self.namespace = namespace
        log = LogFollower(namespace, at: LogCursor(seq: 0)) {
            $0.checksHistory = true
            $0.separatesKinds = true
            $0.pageEntries = pageEntries
        }
    }

    /// Reads to the log's end.
    mutating func catchUp(_ store: any LogContract) throws {
        while true {
            switch try store.next(&log) {
            case .entries(let entries):
                count += entries.count
                for logged in entries { apply(logged.entry.changes) }
            case .bulk(let logged):
                count += 1
                try applyBulk(logged.entry, store)
            case .rules: count += 1
            case .missing, .takenBack:
                loads += 1
                let tree = try store.tree(namespace)
                root = tree.root
                log.restart(at: tree.at)
            case .end: return
            }
        }
    }

    private mutating func apply(_ changes: [Change]) {
        for change in changes { root = root.replacing(change.path, with: change.value) }
    }

    private mutating func applyBulk(_ entry: Entry, _ store: any LogContract) throws {
        let parts = try store.parts(namespace, of: entry.seq)
        guard entry.operation == .load else {
            return apply(ApplicationOrder.sorted(entry.changes + parts.flatMap { $0 }))
        }
        var application = BulkApplication(entry.changes, to: root)
        repeat { for part in parts { application.take(part) } } while application.goesOn()
        root = application.root
    }
}

extension TreeGenerator {
    /// A change as the gateway lets it through: what is written to a priority is one.
    mutating func change(maxDepth: Int) -> Change {
        let path = writablePath(maxDepth: maxDepth)
        if path.namesPriority { return Change(path: path, value: priority()) }
        return Change(path: path, value: random.oneIn(4) ? .null : leafOrTree())
    }
}
