import Engine
import HTTPServer
import Tree
import Wire

/// What a request for the log asks for.
struct LogParameters: Equatable {
    /// How the lines are wanted.
    enum Form: Equatable {
        /// One a line, for as long as the client stays, or up to the head.
        case lines(follows: Bool)
        /// As server-sent events, for as long as the client stays, or up to the head.
        case events(follows: Bool)
        /// By the protocol of durable streams: what there is now, as one array.
        case durable
        /// The same; where there is nothing, as soon as there is something.
        case durablePoll(cursor: Int64?)
        /// The same as server-sent events.
        case durableEvents(cursor: Int64?)
    }

    /// Where to begin.
    enum Start: Equatable {
        /// Behind what there is now.
        case head
        /// With the oldest entry that is retained.
        case oldest
        /// Behind a place.
        case behind(LogPlace)
    }

    let form: Form
    let start: Start
    /// Only what concerns it; nil for everything that the caller may see.
    let path: Path?

    private static let names: Set<String> = ["from", "path", "follow", "offset", "live", "cursor"]
    /// What every request may have.
    private static let common: Set<String> = ["ns", "auth", "access_token", "auth_variable_override"]

    /// - Parameters:
    ///   - query: still percent-encoded. Names that mean nothing here are refused, as a bound that is misspelt is none, except by the
    ///     protocol of durable streams, which has its servers ignore them.
    ///   - lastEventID: the last event that the client has seen, as it says.
    init(_ query: ArraySlice<UInt8>?, acceptsEvents: Bool, lastEventID: String?) throws(RESTError) {
        let (given, unknown) = try Self.given(query)
        path = try given["path"].map { (text) throws(RESTError) in try Self.path(text) }
        let isDurable = given["offset"] != nil || given["live"] != nil
        if let unknown, !isDurable {
            throw RESTError(
                400,
                "\"\(unknown.prefix(100))\" is unknown here; known are \(Self.names.sorted().joined(separator: ", "))")
        }
        if isDurable {
            guard given["from"] == nil, given["follow"] == nil else {
                throw RESTError(400, "from and follow don't go with offset and live")
            }
            start = try Self.start(offset: given["offset"], isLive: given["live"] != nil)
            form = try Self.form(live: given["live"], cursor: given["cursor"])
            return
        }
        let follows = try Self.flag(given["follow"])
        form = acceptsEvents ? .events(follows: follows) : .lines(follows: follows)
        // A browser that comes back does so with the address that it was given first.
        if acceptsEvents, let lastEventID, !lastEventID.isEmpty {
            guard let place = LogPlaceText.place(eventID: lastEventID) else {
                throw RESTError(400, "Last-Event-ID must be the id of an event, or a seq")
            }
            start = .behind(place)
        } else {
            start = try Self.start(from: given["from"])
        }
    }

    /// The parameters that mean something here, and the first name of another one.
    private static func given(
        _ query: ArraySlice<UInt8>?
    ) throws(RESTError) -> (known: [String: String], unknown: String?) {
        var given: [String: String] = [:]
        var unknown: String?
        for pair in (query ?? []).split(separator: UInt8(ascii: "&")) {
            let equals = pair.firstIndex(of: UInt8(ascii: "=")) ?? pair.endIndex
            let name = String(decoding: pair[..<equals], as: UTF8.self)
            guard !common.contains(name) else { continue }
            guard names.contains(name) else {
                unknown = unknown ?? name
                continue
            }
            let raw = equals < pair.endIndex ? pair[(equals + 1)...] : []
            guard let bytes = PercentEncoding.decode(raw, plusIsSpace: true),
                let value = String(validating: bytes, as: UTF8.self)
            else { throw RESTError(400, "\(name) is not percent-encoded UTF-8") }
            guard given.updateValue(value, forKey: name) == nil else {
                throw RESTError(400, "\(name) may be given only once")
            }
        }
        return (given, unknown)
    }

    private static func path(_ text: String) throws(RESTError) -> Path {
        let path = Path(splitting: text)
        guard path.depth <= KeyRules.maxDepth else {
            throw RESTError(400, "path is more than \(KeyRules.maxDepth) levels deep")
        }
        for key in path.keys {
            if let violation = KeyRules.violation(in: key) {
                throw RESTError(400, "path has a key that \(violation.reason)")
            }
        }
        return path
    }

    private static func flag(_ text: String?) throws(RESTError) -> Bool {
        switch text {
        case nil, "true": return true
        case "false": return false
        default: throw RESTError(400, "follow must be true or false")
        }
    }

    /// - Parameter text: the first seq that is wanted.
    private static func start(from text: String?) throws(RESTError) -> Start {
        guard let text else { return .head }
        if text == "oldest" { return .oldest }
        guard text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let seq = Int64(text),
            (1...LogPlaceText.maxSeq).contains(seq)
        else {
            throw RESTError(400, "from must be a seq, from 1, or oldest")
        }
        return .behind(LogPlace(seq: seq - 1))
    }

    private static func start(offset: String?, isLive: Bool) throws(RESTError) -> Start {
        switch offset {
        case nil where isLive: throw RESTError(400, "live needs an offset: -1 for the beginning")
        case nil, "-1": return .oldest
        case "now": return .head
        case let text?:
            guard let place = LogPlaceText.place(offset: text) else {
                throw RESTError(400, "offset must be -1, now, or one that an answer gave")
            }
            return .behind(place)
        }
    }

    private static func form(live: String?, cursor: String?) throws(RESTError) -> Form {
        // What a cursor of somebody else's says doesn't matter: it only must not come back.
        let cursor = cursor.flatMap { Int64($0) }
        switch live {
        case nil: return .durable
        case "long-poll": return .durablePoll(cursor: cursor)
        case "sse": return .durableEvents(cursor: cursor)
        default: throw RESTError(400, "live must be long-poll or sse")
        }
    }
}
