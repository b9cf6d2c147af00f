import Feeds
import HTTPServer
import JSONText
import LogStore
import Tree
import Wire

/// A complete answer to a feed's request.
struct FeedAnswer: Sendable {
    var status = 200
    var body: [UInt8]
    var retryAfter: Int?
    /// The content type of another gateway's answer; nil for JSON.
    var contentType: String?

    /// Creates an answer from encoded JSON.
    init(status: Int = 200, _ body: [UInt8]) {
        self.status = status
        self.body = body
    }

    init(_ error: RESTError, retryAfter: Int? = nil) {
        status = error.status
        body = ErrorBody.encode(error.message)
        self.retryAfter = retryAfter
    }

    /// Encodes `{"messages":[…]}`.
    ///
    /// - Parameter hasEventIDs: whether `event_ids` follows, with the event ids for a stream that another gateway
    ///   serves.
    init(messages: [FeedDelivery], hasEventIDs: Bool) {
        // The reservation is limited, because the size is only an estimate.
        let size = messages.reduce(32) { $0 + $1.estimatedBytes }
        var writer = JSONWriter(form: .plain, reserving: min(size, 1 << 20))
        writer.raw("{\"messages\":[")
        for (index, message) in messages.enumerated() {
            if index > 0 { writer.raw(",") }
            message.write(to: &writer)
        }
        writer.raw("]")
        if hasEventIDs {
            writer.raw(",\"event_ids\":[")
            for (index, message) in messages.enumerated() {
                if index > 0 { writer.raw(",") }
                writer.writeString(message.eventID)
            }
            writer.raw("]")
        }
        writer.raw("}")
        self.init(writer.bytes)
    }

    /// Encodes `{"results":{"id":"done",…}}`.
    init(ids: [String], results: [String]) {
        var writer = JSONWriter(form: .plain)
        writer.raw("{\"results\":{")
        var seen: Set<String> = []
        for (id, result) in zip(ids, results) where seen.insert(id).inserted {
            if seen.count > 1 { writer.raw(",") }
            writer.writeString(id)
            writer.raw(":")
            writer.writeString(result)
        }
        writer.raw("}}")
        self.init(writer.bytes)
    }

    init(_ refusal: FeedRefusal, of feed: FeedName) {
        switch refusal {
        case .unknownFeed: self.init(RESTError(404, "There is no feed \"\(feed.name)\" in this namespace"))
        case .notAdmitted: self.init(RESTError.permissionDenied)
        case .moving:
            self.init(
                RESTError(503, "The namespace is being moved to another database. Try again later."), retryAfter: 1)
        case .elsewhere, .noOwner:
            self.init(RESTError(503, "No gateway runs this feed at the moment. Try again later."), retryAfter: 1)
        case .isPushed:
            self.init(RESTError(409, "The feed sends its messages to a webhook or sink: consumers can't pull them"))
        case .tooManyWaiting: self.init(RESTError(429, "Too many requests wait for messages"), retryAfter: 1)
        case .stopping: self.init(RESTError(503, "The gateway is stopping"), retryAfter: 1)
        }
    }

    /// Converts the error of an administrator's request.
    ///
    /// - Parameter feed: the feed of the request.
    init(failure error: any Error, of feed: FeedName) {
        switch error {
        case let error as FeedBusyError: self.init(RESTError(503, error.description), retryAfter: 1)
        case let error as FeedRefusalError: self.init(error.refusal, of: feed)
        case let error as FeedError:
            switch error {
            case .unknownFeed(let name): self.init(FeedRefusal.unknownFeed, of: name)
            case .notAdmitted(let name): self.init(FeedRefusal.notAdmitted, of: name)
            case .moving(let namespace): self.init(FeedRefusal.moving, of: FeedName(namespace: namespace, name: ""))
            case .pruned: self.init(RESTError(400, error.description))
            case .tooManyFeeds, .differentPaths: self.init(RESTError(409, error.description))
            }
        case let error as DefinitionError: self.init(RESTError(400, error.description))
        // The error's advice is for command lines: in a body, seqs, times and positions are separate members.
        case ReplayError.badPosition(let text):
            self.init(RESTError(400, "\"\(text)\" is not a time such as 2026-01-31T12:00:00Z"))
        case let error as ReplayError: self.init(RESTError(400, "\(error)"))
        case LogStoreError.unknownNamespace(let name):
            self.init(RESTError(404, "There is no namespace \"\(name)\" here"))
        default: self.init(RESTError(503, "The database is unavailable. Try again later."), retryAfter: 1)
        }
    }

    /// Sends the answer.
    ///
    /// - Returns: false if the output budget is exhausted and the exchange answered 503 instead.
    @discardableResult
    func send(to exchange: HTTPExchange) -> Bool {
        var headers: HTTPHeaders = [
            "Content-Type": contentType ?? "application/json; charset=utf-8", "Cache-Control": "no-store",
        ]
        if let retryAfter { headers.add("Retry-After", "\(retryAfter)") }
        return exchange.respond(status: status, headers: headers, body: body)
    }
}
