import Feeds
import HTTPServer
import Wire

/// The kind of a feed request, by its path and method. Pure.
enum FeedPath: Equatable {
    case list
    case definition(String, Access)
    case pull(String)
    case settle(String, FeedBodies.Verb)
    case stream(String)
    case seek(String)
    case dead(String)
    case retry(String)
    case drop(String)
    case status(String)

    enum Access: Equatable {
        case show, apply, remove
    }

    /// The feed's name; nil for the list.
    var name: String? {
        switch self {
        case .list: nil
        case .definition(let name, _), .pull(let name), .settle(let name, _), .stream(let name), .seek(let name),
            .dead(let name), .retry(let name), .drop(let name), .status(let name):
            name
        }
    }

    /// Whether the request needs an administrator.
    var needsAdministrator: Bool {
        switch self {
        case .list, .definition(_, .apply), .definition(_, .remove): true
        default: false
        }
    }

    /// - Parameter path: still percent-encoded; a feed's name needs no encoding.
    init(_ method: HTTPMethod, _ path: ArraySlice<UInt8>) throws(RESTError) {
        let parts = String(decoding: path, as: UTF8.self).split(separator: "/", omittingEmptySubsequences: false)
            .dropFirst(2).map(String.init)
        let isRead = method == .get || method == .head
        if parts.isEmpty || parts == [""] {
            guard isRead else { throw Self.wrongMethod("GET") }
            self = .list
            return
        }
        let name = parts[0]
        switch (parts.dropFirst().joined(separator: "/"), method) {
        case ("", .get), ("", .head): self = .definition(name, .show)
        case ("", .put): self = .definition(name, .apply)
        case ("", .delete): self = .definition(name, .remove)
        case ("", _): throw Self.wrongMethod("GET, PUT or DELETE")
        case ("pull", .post): self = .pull(name)
        case ("ack", .post): self = .settle(name, .ack)
        case ("nack", .post): self = .settle(name, .nack)
        case ("extend", .post): self = .settle(name, .extend)
        case ("seek", .post): self = .seek(name)
        case ("dead/retry", .post): self = .retry(name)
        case ("dead/drop", .post): self = .drop(name)
        case ("stream", _) where isRead: self = .stream(name)
        case ("dead", _) where isRead: self = .dead(name)
        case ("status", _) where isRead: self = .status(name)
        case ("pull", _), ("ack", _), ("nack", _), ("extend", _), ("seek", _), ("dead/retry", _), ("dead/drop", _):
            throw Self.wrongMethod("POST")
        case ("stream", _), ("dead", _), ("status", _): throw Self.wrongMethod("GET")
        default: throw RESTError(404, "There is nothing at this path")
        }
    }

    /// Returns the path and query of a request to a feed.
    static func target(_ verb: String, of feed: FeedName) -> String {
        "/.feeds/\(PercentEncoding.encode(feed.name.utf8))/\(verb)?ns=\(PercentEncoding.encode(feed.namespace.utf8))"
    }

    private static func wrongMethod(_ methods: String) -> RESTError { RESTError(405, "The method must be \(methods)") }
}

/// The parameters of a feed's request, except those of every request. Pure.
struct FeedQuery {
    private var values: [String: String] = [:]

    init(_ query: ArraySlice<UInt8>?) {
        for pair in (query ?? []).split(separator: UInt8(ascii: "&")) {
            let parts = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, let name = PercentEncoding.decode(parts[0]),
                let value = PercentEncoding.decode(parts[1])
            else { continue }
            values[String(decoding: name, as: UTF8.self)] = String(decoding: value, as: UTF8.self)
        }
    }

    subscript(_ name: String) -> String? { values[name] }

    func number(_ name: String, _ range: ClosedRange<Int>) throws(RESTError) -> Int? {
        guard let text = values[name] else { return nil }
        guard let number = Int(text), range.contains(number) else {
            throw RESTError(400, "\(name) must be a whole number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }
}
