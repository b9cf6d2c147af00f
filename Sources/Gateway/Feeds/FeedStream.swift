import Feeds
import HTTPServer
import Tree

/// One event stream of a feed: one consumer, whose messages are events. Belongs to its loop's thread.
final class FeedStream {
    let exchange: HTTPExchange
    let feed: FeedName
    /// Those of the feed's database.
    let feeds: FeedService
    let consumer: String
    /// How many messages it may have that are not acknowledged.
    let most: Int
    let identity: Identity
    let authorization: String?
    /// The credential that its URL has, encoded as it came: web pages can send none otherwise.
    let credentialParameters: String
    /// Whether the answer has begun: then it is known that there is such a feed.
    var hasBegun = false
    /// Where its feed is worked, when that is not here.
    var address: String?
    /// What waits for messages now: here, or where the feed is worked.
    var pull: FeedPull?
    var forwarded: ForwardedRequest?
    /// The next pull first gives back what the consumer still holds, up to a message acknowledged.
    var resumes = true
    let lastEventID: String?
    /// Whether the reader has to take what was sent first.
    var isFull = false

    init(
        _ exchange: HTTPExchange, _ feed: FeedName, of feeds: FeedService, consumer: String, most: Int,
        _ identity: Identity,
        authorization: String?, credentialParameters: String, lastEventID: String?
    ) {
        self.exchange = exchange
        self.feed = feed
        self.feeds = feeds
        self.consumer = consumer
        self.most = most
        self.identity = identity
        self.authorization = authorization
        self.credentialParameters = credentialParameters
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
    var pullBody: [UInt8] {
        var writer = JSONWriter(form: .plain)
        writer.raw("{\"max\":100,\"wait_ms\":20000,\"consumer\":")
        writer.writeString(consumer)
        writer.raw(",\"max_held\":")
        writer.writeInteger(Int64(most))
        if resumes {
            writer.raw(",\"resume\":true")
            if let lastEventID {
                writer.raw(",\"after\":")
                writer.writeString(lastEventID)
            }
        }
        writer.raw("}")
        return writer.bytes
    }
}
