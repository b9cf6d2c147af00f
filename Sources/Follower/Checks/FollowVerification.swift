import ClientCore
public import LogStore
public import Runtime
public import Tree

/// Compares a namespace with its upstream, by hashes that the upstream compares: one part after another.
///
/// A part is equal if the upstream answers a listen with the part's hash without data. Otherwise the upstream sends the parts
/// that differ. Writes in flight cause such differences as well, so the namespace's log is followed until the
/// namespace has the upstream's state, or has not had it for some seconds.
public struct FollowVerification {
    /// The result for one part.
    public enum Verdict: Sendable, Equatable {
        /// The namespace had the upstream's state at this seq. `isByHash`: the upstream's hash proved it without any data.
        case equal(seq: Int64, isByHash: Bool)
        /// The namespace differs at these paths; `count` is the number of all differing paths.
        case different(seq: Int64, paths: [Path], count: Int)
    }

    private let connection: LogConnection
    private let namespace: NamespaceRecord
    private let address: UpstreamAddress
    private let credentials: UpstreamCredentials
    private let tools: FollowTools
    private let check: () throws -> Void
    /// How long the namespace may take to reach the upstream's state.
    private let patience: Milliseconds
    private static let mostPaths = 20
    /// The number of attempts for a part whose connection breaks.
    private static let attempts = 10

    /// The bytes that the verification received and sent.
    public private(set) var receivedBytes: Int64 = 0
    public private(set) var sentBytes: Int64 = 0

    /// - Parameter check: throws if the command was interrupted.
    public init(
        _ connection: LogConnection, _ namespace: NamespaceRecord, _ record: FollowRecord, _ tools: FollowTools,
        patience: Milliseconds = 10_000, check: @escaping () throws -> Void
    ) throws(FollowError) {
        self.connection = connection
        self.namespace = namespace
        address = try UpstreamAddress(record.upstream)
        credentials = try UpstreamCredentials(stored: record.credentials)
        self.tools = tools
        self.patience = patience
        self.check = check
        plan = record.status.parts.flatMap { FollowPlan(stored: $0) } ?? FollowPlan()
    }

    private let plan: FollowPlan

    /// The number of parts.
    public var partCount: Int { plan.parts.count }

    /// Compares all parts. A part whose connection breaks is compared again; parts that are done are not.
    ///
    /// - Parameter each: receives the verdict of each part.
    public mutating func run(_ each: (_ part: String, Verdict) throws -> Void) throws {
        var reader = TreeReader(connection, namespace)
        for part in plan.parts { try each(part.description, try verdict(part, &reader)) }
    }

    private mutating func verdict(_ part: FollowPart, _ reader: inout TreeReader) throws -> Verdict {
        var attempt = 1
        while true {
            do {
                return try compare(part, &reader)
            } catch FollowError.unreachable(let reason) {
                guard attempt < Self.attempts else { throw FollowError.unreachable(reason) }
                attempt += 1
                try check()
                _ = Condition(false).wait(milliseconds: 1_000) { $0 ? true : nil }
            }
        }
    }

    private mutating func compare(_ part: FollowPart, _ reader: inout TreeReader) throws -> Verdict {
        let session = UpstreamSession(
            address, TokenSource(credentials, UpstreamRequests(tools.client), readFile: tools.readFile),
            tools.transport, check: check)
        defer {
            receivedBytes += session.receivedBytes
            sentBytes += session.sentBytes
        }
        try session.open()
        try reader.load()
        let answer = try session.listen(part, from: reader.root)
        if answer.isEqual { return .equal(seq: reader.seq, isByHash: true) }
        // The state that the upstream had; the namespace reaches it by one of its next entries.
        var live = answer.value
        let first = answer.value
        let deadline = Clock.monotonicMilliseconds + patience
        var differences = part.changes(from: reader.root[part.path], to: first)
        while !differences.isEmpty {
            guard Clock.monotonicMilliseconds < deadline else {
                // Paths at which the namespace also differs from the upstream's present state.
                for report in try session.pump(milliseconds: 200) { _ = part.apply(report, to: &live) }
                let now = Set(part.changes(from: reader.root[part.path], to: live).map(\.path))
                let paths = differences.map(\.path).filter { now.contains($0) }
                let shown = paths.isEmpty ? differences.map(\.path) : paths
                return .different(seq: reader.seq, paths: Array(shown.prefix(Self.mostPaths)), count: shown.count)
            }
            for report in try session.pump(milliseconds: 20) { _ = part.apply(report, to: &live) }
            try reader.advance { root in
                differences = part.changes(from: root[part.path], to: first)
                return !differences.isEmpty
            }
        }
        return .equal(seq: reader.seq, isByHash: false)
    }
}

/// A namespace's tree as its rows have it, and later as its log changes it.
private struct TreeReader {
    private let connection: LogConnection
    private let namespace: NamespaceRecord
    private(set) var root = Node.null
    private(set) var seq: Int64 = 0
    private var follower: LogFollower

    init(_ connection: LogConnection, _ namespace: NamespaceRecord) {
        self.connection = connection
        self.namespace = namespace
        follower = LogFollower(namespace.id, at: LogPosition(seq: 0))
    }

    /// Reads the rows of the tree.
    mutating func load() throws {
        let loaded = try connection.loadTree(namespace.id)
        root = loaded.root
        seq = loaded.head
        follower = LogFollower(namespace.id, at: LogPosition(seq: loaded.head, batch: loaded.batch)) {
            // Entries with parts have no changes of their own.
            $0.separatesKinds = true
        }
    }

    /// Applies the entries that follow, one by one, for as long as `goesOn` accepts the tree after each.
    mutating func advance(_ goesOn: (Node) throws -> Bool) throws {
        switch try follower.next(on: connection) {
        case .entries(let entries):
            for logged in entries {
                root = root.replacing(ApplicationOrder.sorted(logged.entry.changes))
                seq = logged.entry.seq
                guard try goesOn(root) else { return }
            }
        case .rules(let logged): seq = logged.entry.seq
        case .bulk, .missing, .rolledBack:
            try load()
            _ = try goesOn(root)
        case .end: break
        }
    }
}
