public import Tree

/// Makes the lines of one log's entries, or of what in them concerns one path.
public struct LogLineMaker: Sendable {
    /// What the lines name as their log.
    public let source: String
    private let path: Path?
    private let hasOrigins: Bool

    /// - Parameters:
    ///   - installation: names the database among others.
    ///   - path: only what concerns it; nil for everything.
    ///   - hasOrigins: whether lines say who wrote.
    public init(installation: String, namespace: String, within path: Path? = nil, hasOrigins: Bool = true) {
        self.path = path.flatMap { $0.isRoot ? nil : $0 }
        self.hasOrigins = hasOrigins
        source = "\(installation)/\(namespace)" + (self.path?.description ?? "")
    }

    /// The line of an entry; of a bulk entry the first. Nil for one that doesn't concern the path.
    ///
    /// - Parameter time: when it was committed, as text.
    public func line(of entry: Entry, time: String) -> LogLine? {
        let changes = narrowed(entry.changes)
        let head = LogLine.Head(
            operation: entry.operation, path: entry.path, committedAt: time, origin: hasOrigins ? entry.origin : nil)
        guard entry.isBulk else {
            guard !changes.isEmpty || path == nil else { return nil }
            return LogLine(source: source, seq: entry.seq, content: .entry(head, changes))
        }
        guard path.map({ $0.contains(entry.path) || entry.path.contains($0) }) ?? true else { return nil }
        return LogLine(source: source, seq: entry.seq, content: .bulk(head, changes))
    }

    /// The line of a bulk entry's part; nil for one that doesn't concern the path.
    public func line(ofPart changes: [Change], of seq: Int64) -> LogLine? {
        let changes = narrowed(changes)
        return changes.isEmpty ? nil : LogLine(source: source, seq: seq, content: .part(changes))
    }

    /// The last line of a bulk entry, behind so many lines of parts.
    public func end(of seq: Int64, parts: Int) -> LogLine {
        LogLine(source: source, seq: seq, content: .end(parts: parts))
    }

    private func narrowed(_ changes: [Change]) -> [Change] {
        guard let path else { return changes }
        return changes.compactMap { $0.narrowed(to: path) }
    }
}
