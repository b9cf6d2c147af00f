/// Counts the rows that a change adds, changes and removes, and keeps the first paths of each kind.
public struct RowSummary: RowSink, Sendable, Equatable {
    /// The rows of one kind.
    public struct Rows: Sendable, Equatable {
        public fileprivate(set) var count: Int64 = 0
        /// The paths of the first rows, at most `RowSummary.maxPaths`.
        public fileprivate(set) var firstPaths: [String] = []

        public init() {}

        fileprivate mutating func add(_ path: [UInt8]) {
            count += 1
            if firstPaths.count < RowSummary.maxPaths { firstPaths.append(String(decoding: path, as: UTF8.self)) }
        }
    }

    public static let maxPaths = 5

    public private(set) var added = Rows()
    public private(set) var changed = Rows()
    public private(set) var removed = Rows()

    public init() {}

    /// Summarizes the rows in which two trees differ.
    ///
    /// - Parameter path: the path below which they differ.
    public init(from old: Node, to new: Node, below path: Path = .root) {
        var diff = RowDiff(RowSummary())
        diff.compare(old, new, changedAt: path)
        self = diff.sink
    }

    /// Whether there is no row of any kind.
    public var isEmpty: Bool { added.count == 0 && !replacesRows }

    /// Whether a row that was there is changed or removed.
    public var replacesRows: Bool { changed.count > 0 || removed.count > 0 }

    /// Counts a row.
    public mutating func row(_ path: [UInt8], old: Node, new: Node) {
        if old.isNull {
            added.add(path)
        } else if new.isNull {
            removed.add(path)
        } else {
            changed.add(path)
        }
    }
}
