import LogStore
import Postgres
import TestSupport
import Testing
import Tree

/// One connection to a store of logs, as used by the contract's tests. The protocol contains the operations that a
/// gateway needs from a store. Another store satisfies the contract if it passes the same tests.
protocol LogContract: AnyObject {
    /// Creates the namespace unless it exists. Returns its id.
    func makeNamespace(_ name: String) throws -> Int64
    /// Returns the head of the log with the batch of its entry.
    func head(_ namespace: Int64) throws -> LogPosition?

    // MARK: Writing
    func commit(_ batch: Batch, isLocked: Bool) throws -> LogConnection.CommitOutcome
    func lockHead(_ namespace: Int64, expectedHead: Int64) throws -> Int64
    func unlockHead()
    func findBatch(_ batch: Batch) throws -> Bool
    /// Replaces the leaves at and below a path, as one entry or in chunks of `rowsPerChunk` rows. Returns the last
    /// entry's seq.
    func importLeaves(
        _ leaves: [(path: String, value: Node)], to name: String, at path: Path, rowsPerChunk: Int?
    ) throws -> Int64
    /// Writes an entry whose changes are stored in parts.
    func commitLarge(_ batch: Batch, _ parts: [[Change]]) throws
    func setRules(_ namespace: Int64, _ source: String) throws -> Int64
    /// Drops all entries except the last `entries` ones.
    func prune(_ namespace: Int64, keeping entries: Int64) throws

    // MARK: Reading
    func next(_ follower: inout LogFollower) throws -> LogEvent
    /// Returns the next event of a follower that waits for commits, or nil after the wait.
    func nextOrWait(_ follower: inout LogFollower) throws -> LogEvent?
    /// Makes `nextOrWait` receive announcements of commits from now on.
    func listen() throws
    func parts(_ namespace: Int64, of seq: Int64) throws -> [[Change]]
    func rules(_ namespace: Int64, at seq: Int64) throws -> String?
    /// Returns the stored tree and its log position.
    func tree(_ namespace: Int64) throws -> (root: Node, at: LogPosition)
    /// Returns the tree after an entry.
    func tree(_ namespace: Int64, asOf seq: Int64) throws -> Node
    /// Returns the problems of the log and the tree, as sentences.
    func verify(_ namespace: Int64) throws -> [String]
    func close()
}

/// A store on which the contract's tests run, with the functions that open and damage it.
struct ContractStore: Sendable, CustomTestStringConvertible {
    /// Kinds of damage that verification must detect.
    enum Damage: CaseIterable { case lostEntry, changedLeaf, lostLeaf, strayLeaf, headTooHigh, changedEntry }

    /// An empty store for one test.
    struct Opened {
        /// Opens another connection.
        let connect: () throws -> any LogContract
        /// Opens a connection that is cut at that stage of the next commit. `release` delivers the held-back data to
        /// the store.
        let connectCut: (CuttingProxy.Cut) throws -> (connection: any LogContract, release: () -> Void)
        /// Damages the stored data of a namespace with entries and leaves.
        let damage: (Damage, Int64) throws -> Void
    }

    let testDescription: String
    let with: @Sendable ((Opened) throws -> Void) throws -> Void

    /// All stores under test.
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

/// The contract implemented by `LogConnection`.
final class PostgresContract: LogContract {
    private let connection: LogConnection

    init(_ url: PostgresURL) throws {
        var settings = LogConnection.Settings()
        // Small enough for tests to use both ways of writing rows and of sending parts.
        settings.copyThreshold = 20
        connection = try LogConnection(url, settings: settings)
    }

    func makeNamespace(_ name: String) throws -> Int64 { try connection.make(name).id }

    func head(_ namespace: Int64) throws -> LogPosition? {
        try connection.heads([namespace]).first?.head
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
        // Small enough for many parts.
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
        _ = try connection.commitLarge(batch, large: number, parts: Int32(parts.count))
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

    func tree(_ namespace: Int64) throws -> (root: Node, at: LogPosition) {
        let tree = try connection.loadTree(namespace)
        return (tree.root, LogPosition(seq: tree.head, batch: tree.batch))
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

    /// Returns a writer for a namespace of the test.
    func writer(_ name: String = "test") throws -> BatchWriter { BatchWriter(namespace: try makeNamespace(name)) }

    /// Returns all entries after a position, in order, including those after a gap.
    func entries(_ namespace: Int64, after seq: Int64 = 0) throws -> [LoggedEntry] {
        var log = LogFollower(namespace, at: LogPosition(seq: seq)) { $0.gaps = .reported }
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

/// A reader that maintains the tree from the entries, as a gateway does.
struct TreeReader {
    private(set) var root = Node.null
    private(set) var log: LogFollower
    private(set) var loads = 0
    /// The number of entries that were read individually.
    private(set) var count = 0
    private let namespace: Int64

    init(_ namespace: Int64, pageEntries: Int = 1_000) {
        self.namespace = namespace
        log = LogFollower(namespace, at: LogPosition(seq: 0)) {
            $0.checksHistory = true
            $0.separatesKinds = true
            $0.pageEntries = pageEntries
        }
    }

    /// Reads to the end of the log.
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
            case .missing, .rolledBack:
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
        repeat { for part in parts { application.take(part) } } while application.beginNextPass()
        root = application.root
    }
}

extension TreeGenerator {
    /// Returns a random change that a gateway would accept. Writes to a priority are included.
    mutating func change(maxDepth: Int) -> Change {
        let path = writablePath(maxDepth: maxDepth)
        if path.namesPriority { return Change(path: path, value: priority()) }
        return Change(path: path, value: random.oneIn(4) ? .null : leafOrTree())
    }
}
