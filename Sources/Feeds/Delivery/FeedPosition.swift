/// A message's place in its feed: its entry's seq, and its number among the entry's messages. Messages of a snapshot come
/// behind those of the entry that the snapshot is of.
public struct FeedPosition: Sendable, Hashable, Comparable {
    public let seq: Int64
    public let index: Int64
    public let isSnapshot: Bool

    public init(seq: Int64, index: Int64, isSnapshot: Bool = false) {
        self.seq = seq
        self.index = index
        self.isSnapshot = isSnapshot
    }

    public static func < (left: FeedPosition, right: FeedPosition) -> Bool {
        if left.seq != right.seq { return left.seq < right.seq }
        if left.isSnapshot != right.isSnapshot { return right.isSnapshot }
        return left.index < right.index
    }

    /// The first place that can come behind this one.
    var next: FeedPosition { FeedPosition(seq: seq, index: index + 1, isSnapshot: isSnapshot) }

    /// The message's id in a namespace: `default:42:0`, and `default:42:s0` of a snapshot.
    public func id(in namespace: String) -> String { "\(namespace):\(seq):\(isSnapshot ? "s" : "")\(index)" }

    /// Reads an id; nil for anything else, also for ids of other namespaces.
    public init?(id: String, in namespace: String) {
        let parts = id.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 3, parts[0] == namespace, let seq = Self.number(parts[1]) else { return nil }
        let isSnapshot = parts[2].first == "s"
        guard let index = Self.number(isSnapshot ? parts[2].dropFirst() : parts[2]), index < .max else { return nil }
        self.init(seq: seq, index: index, isSnapshot: isSnapshot)
    }

    private static func number(_ text: Substring) -> Int64? {
        guard let first = text.utf8.first, (0x30...0x39).contains(first), first != 0x30 || text.utf8.count == 1 else {
            return nil
        }
        return Int64(text)
    }
}
