/// Names a message, or one delivery of it.
///
/// A message's own id is the same at each delivery: `default:42:0`. The id of a stream's event ends with the number of the delivery,
/// `default:42:0@1f`: a consumer that names it when it opens the next stream says by which connection it received the message.
public struct FeedEventID: Sendable, Hashable {
    public let position: FeedPosition
    /// Counts the deliveries of the feed, over all its owners. Nil in the id of a message.
    public let delivery: UInt64?

    public init(_ position: FeedPosition, delivery: UInt64? = nil) {
        self.position = position
        self.delivery = delivery
    }

    /// Reads what `text` wrote, or the id of a message; nil for anything else, also for ids of other namespaces.
    public init?(_ text: String, in namespace: String) {
        let parts = text.split(separator: "@", maxSplits: 1, omittingEmptySubsequences: false)
        guard let first = parts.first, let position = FeedPosition(id: String(first), in: namespace) else { return nil }
        guard parts.count == 2 else {
            self.init(position)
            return
        }
        // One form for each number: without a sign, zeros before it, or capitals.
        guard let delivery = UInt64(parts[1], radix: 16), String(delivery, radix: 16) == parts[1] else { return nil }
        self.init(position, delivery: delivery)
    }

    /// The id as consumers get it and send it back.
    public func text(in namespace: String) -> String {
        let id = position.id(in: namespace)
        return delivery.map { "\(id)@\(String($0, radix: 16))" } ?? id
    }
}
