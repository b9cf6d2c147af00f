import Feeds
import HTTPServer
import Runtime
import Tree

/// One event stream of a feed: one consumer, whose messages are events. Belongs to its loop's thread.
final class FeedStream {
    let exchange: HTTPExchange
    /// Those of the feed's database.
    let feeds: FeedService
    let consumer: String
    /// Tells the messages that the consumer is handed by this connection from those of its others.
    let opening = FeedOpening()
    /// How many messages it may have that are not acknowledged.
    let most: Int
    let identity: Identity
    let call: FeedCall
    var feed: FeedName { call.feed }
    /// Whether the answer has begun: then it is known that there is such a feed.
    var hasBegun = false
    /// Where its feed is worked, when that is not here.
    var peer: FeedPeer?
    /// What waits for messages now: here, or where the feed is worked.
    var pull: FeedPull?
    var forwarded: ForwardedRequest?
    /// The next pull first gives back what the consumer still holds, up to a message acknowledged.
    var resumes = true
    let lastEventID: String?
    /// Whether the reader has to take what was sent first.
    var isFull = false

    init(
        _ exchange: HTTPExchange, _ call: FeedCall, of feeds: FeedService, consumer: String, most: Int,
        _ identity: Identity, lastEventID: String?
    ) {
        self.exchange = exchange
        self.call = call
        self.feeds = feeds
        self.consumer = consumer
        self.most = most
        self.identity = identity
        self.lastEventID = lastEventID
    }

    /// A message as an event.
    static func event(id: String, _ json: [UInt8]) -> SharedBytes {
        // JSON that was written here has no line breaks.
        var bytes = Array("id: \(id)\nevent: message\ndata: ".utf8)
        bytes.reserveCapacity(bytes.count + json.count + 2)
        bytes += json
        bytes += [0x0A, 0x0A]
        return SharedBytes(bytes)
    }

    /// The body of a pull by which another gateway is asked.
    ///
    /// - Parameter most: 0 only asks whether there is such a feed, and changes nothing.
    func pullBody(most: Int, waitMilliseconds: Milliseconds) -> [UInt8] {
        var pull = FeedBodies.Pull()
        pull.most = most
        pull.waitMilliseconds = waitMilliseconds
        pull.consumer = consumer
        pull.mostHeld = self.most
        pull.resumes = resumes && most > 0
        pull.after = pull.resumes ? lastEventID : nil
        return pull.forwarded
    }
}
