public import Tree

/// Writes entries of a log as lines.
public struct LogLines {
    private let connection: LogConnection
    private let namespace: NamespaceRecord
    private let lines: LogLineMaker

    /// - Parameter path: only what concerns it; nil for everything.
    public init(_ connection: LogConnection, _ namespace: NamespaceRecord, within path: Path? = nil) throws {
        self.connection = connection
        self.namespace = namespace
        lines = LogLineMaker(installation: try connection.installation(), namespace: namespace.name, within: path)
    }

    public var source: String { lines.source }

    /// Calls `body` with each line of the entries from `first` to `last`; `progress` after each page of them.
    public func run(
        from first: Int64, to last: Int64, pageLimit: Int = 1_000, time: (Int64) -> String,
        progress: (Int64) throws -> Void = { _ in }, _ body: (LogLine) throws -> Void
    ) throws {
        var after = max(first, 1) - 1
        var follower = LogFollower(namespace.id, at: LogCursor(seq: after), through: last) {
            $0.pageEntries = pageLimit
        }
        while after < last {
            guard case .entries(let page) = try follower.next(on: connection) else {
                throw ReplayError.pruned(seq: after + 1)
            }
            for logged in page {
                try write(logged.entry, time, body)
                after = logged.entry.seq
            }
            try progress(after)
        }
    }

    private func write(_ entry: Entry, _ time: (Int64) -> String, _ body: (LogLine) throws -> Void) throws {
        guard let line = lines.line(of: entry, time: time(entry.committedAt)) else { return }
        try body(line)
        guard entry.isBulk else { return }
        var count = 0
        var failure: (any Error)?
        try connection.forEachPart(namespace.id, of: entry.seq) { (part) throws(LogStoreError) in
            guard failure == nil, let line = lines.line(ofPart: part, of: entry.seq) else { return }
            count += 1
            do {
                try body(line)
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
        try body(lines.end(of: entry.seq, parts: count))
    }
}
