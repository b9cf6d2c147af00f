@testable import Feeds

extension FeedDelivery {
    /// The id of the message, whichever delivery it is.
    var id: String { message.position.id(in: namespace) }
}
