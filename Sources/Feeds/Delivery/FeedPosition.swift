public import LogStore

extension FeedPosition {
    /// The first possible position after this one.
    var next: FeedPosition { FeedPosition(seq: seq, index: index + 1, isSnapshot: isSnapshot) }

    /// Returns the message's id in a namespace: `default:42:0`, or `default:42:s0` for a snapshot's message.
    public func id(in namespace: String) -> String { "\(namespace):\(seq):\(isSnapshot ? "s" : "")\(index)" }

    /// Parses an id. Returns nil for any other text and for ids of other namespaces.
    public init?(id: String, in namespace: String) {
        var rest = id.utf8[...]
        guard rest.starts(with: namespace.utf8) else { return nil }
        rest = rest.dropFirst(namespace.utf8.count)
        guard rest.popFirst() == UInt8(ascii: ":"), let seq = Self.number(&rest), rest.popFirst() == UInt8(ascii: ":")
        else { return nil }
        let isSnapshot = rest.first == UInt8(ascii: "s")
        if isSnapshot { rest = rest.dropFirst() }
        guard let index = Self.number(&rest), rest.isEmpty else { return nil }
        self.init(seq: seq, index: index, isSnapshot: isSnapshot)
        guard isReachable else { return nil }
    }

    /// Whether a feed can reach the position. This bound keeps sums with positions from clients or the database from overflowing.
    var isReachable: Bool { seq >= 0 && seq <= Self.most && index >= 0 && index <= Self.most }

    /// A bound for seqs and indexes that no feed reaches.
    static let most = Int64.max / 2

    /// Parses a number without leading zeros.
    private static func number(_ text: inout Substring.UTF8View) -> Int64? {
        let isZero = text.first == UInt8(ascii: "0")
        var number: Int64 = 0
        var digits = 0
        while let byte = text.first, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) {
            let (ten, isTooMuch) = number.multipliedReportingOverflow(by: 10)
            let (sum, isBeyond) = ten.addingReportingOverflow(Int64(byte - UInt8(ascii: "0")))
            guard !isTooMuch, !isBeyond else { return nil }
            number = sum
            digits += 1
            text = text.dropFirst()
        }
        return digits == 0 || (isZero && digits > 1) ? nil : number
    }
}

/// Identifies a message, or one delivery of a message.
///
/// A message's own id is the same in each delivery: `default:42:0`. The id of a stream's event ends with the number of the delivery:
/// `default:42:0@1f`. A consumer that sends such an id when it opens the next stream states by which connection it received the message.
public struct FeedEventID: Sendable, Hashable {
    public let position: FeedPosition
    /// The number of the delivery among all deliveries of the feed, over all its owners, or nil in a message id.
    public let delivery: UInt64?

    public init(_ position: FeedPosition, delivery: UInt64? = nil) {
        self.position = position
        self.delivery = delivery
    }

    /// Parses the format of `text(in:)`, or a message id. Returns nil for any other text and for ids of other namespaces.
    public init?(_ text: String, in namespace: String) {
        let parts = text.split(separator: "@", maxSplits: 1, omittingEmptySubsequences: false)
        guard let first = parts.first, let position = FeedPosition(id: String(first), in: namespace) else { return nil }
        guard parts.count == 2 else {
            self.init(position)
            return
        }
        // Each number has one valid form: no sign, leading zeros or capitals.
        guard let delivery = UInt64(parts[1], radix: 16), String(delivery, radix: 16) == parts[1] else { return nil }
        self.init(position, delivery: delivery)
    }

    /// Returns the id as consumers receive it and send it back.
    public func text(in namespace: String) -> String {
        let id = position.id(in: namespace)
        return delivery.map { "\(id)@\(String($0, radix: 16))" } ?? id
    }
}
