/// A state of a feed in which recording its progress could lose a message. It ends the feed's run, and nothing else.
struct FeedInvariantError: Error, Sendable, Equatable, CustomStringConvertible {
    enum Cause: Sendable, Equatable {
        /// The reader brought a message that does not come after the last one, or after what was read.
        case outOfOrder(FeedPosition, after: FeedPosition)
        /// The reader brought a message that is not done yet.
        case alreadyOpen(FeedPosition)
        /// A message that is not open was to become done.
        case notOpen(FeedPosition)
        /// The range to be recorded as done contains a message that is not done.
        case coversOpen(FeedPosition)
        /// The machine has another number of messages than are open.
        case miscounted(open: Int, held: Int)
        /// The progress to be recorded is before the progress recorded last.
        case stepsBack(FeedPosition, from: FeedPosition)
        /// The progress to be recorded cannot be encoded.
        case unencodable
    }

    let cause: Cause

    init(_ cause: Cause) { self.cause = cause }

    /// The fault, the gateway's reaction, and the operator's remedy.
    var description: String {
        "\(reason). The feed stopped without recording this, and starts again from its last recorded position: messages that"
            + " were not acknowledged are delivered again. If this repeats, seek the feed to a later position, and"
            + " report the fault with this line."
    }

    private var reason: String {
        switch cause {
        case .outOfOrder(let position, let last):
            "message \(Self.text(position)) was read after \(Self.text(last)), against the order of the log"
        case .alreadyOpen(let position): "message \(Self.text(position)) was read twice"
        case .notOpen(let position): "message \(Self.text(position)) became done twice"
        case .coversOpen(let position):
            "the progress would have recorded message \(Self.text(position)) as done, which it is not"
        case .miscounted(let open, let held): "\(open) messages are open in the log's order, and \(held) are kept"
        case .stepsBack(let position, let last):
            "the progress would have stepped back from \(Self.text(last)) to \(Self.text(position))"
        case .unencodable: "the progress cannot be encoded"
        }
    }

    private static func text(_ position: FeedPosition) -> String {
        "\(position.seq):\(position.isSnapshot ? "s" : "")\(position.index)"
    }
}
