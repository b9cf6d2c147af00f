@testable import Feeds

extension FeedDelivery {
    /// The id of the message, the same for all of its deliveries.
    var id: String { message.position.id(in: namespace) }
}
