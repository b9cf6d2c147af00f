import Engine
import Tree
import Wire

/// What a request for the log asks for.
struct LogParameters: Equatable {
    /// How the lines are wanted.
    enum Mode: Equatable {
        /// The lines that the log has now, as one array.
        case catchUp
        /// The same, except that a request at the log's end waits for the next line.
        case longPoll(cursor: Int64?)
        /// The lines that the log has now and those that follow, as server-sent events.
        case events(cursor: Int64?)
    }

    /// Where to begin.
    enum Start: Equatable {
        /// After the last entry that the log has now.
        case head
        /// With the oldest entry that is retained.
        case oldest
        /// After a place.
        case behind(LogPlace)
    }

    let mode: Mode
    let start: Start
    /// Only what concerns it; nil for everything that the caller may see.
    let path: Path?

    private static let names: Set<String> = ["path", "offset", "live", "cursor"]

    /// - Parameter query: still percent-encoded. Names that mean nothing here are ignored, as the protocol demands of its servers.
    init(_ query: ArraySlice<UInt8>?) throws(RESTError) {
        let given = try Self.given(query)
        path = try given["path"].map { (text) throws(RESTError) in try Self.path(text) }
        start = try Self.start(offset: given["offset"], isLive: given["live"] != nil)
        mode = try Self.mode(live: given["live"], cursor: given["cursor"])
    }

    private static func given(_ query: ArraySlice<UInt8>?) throws(RESTError) -> [String: String] {
        var given: [String: String] = [:]
        for pair in (query ?? []).split(separator: UInt8(ascii: "&")) {
            let equals = pair.firstIndex(of: UInt8(ascii: "=")) ?? pair.endIndex
            let name = String(decoding: pair[..<equals], as: UTF8.self)
            guard names.contains(name) else { continue }
            let raw = equals < pair.endIndex ? pair[(equals + 1)...] : []
            guard let bytes = PercentEncoding.decode(raw, plusIsSpace: true),
                let value = String(validating: bytes, as: UTF8.self)
            else { throw RESTError(400, "\(name) is not percent-encoded UTF-8") }
            guard given.updateValue(value, forKey: name) == nil else {
                throw RESTError(400, "\(name) may be given only once")
            }
        }
        return given
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

    private static func mode(live: String?, cursor: String?) throws(RESTError) -> Mode {
        // A cursor that this server did not give has no meaning; the answer only must not have the same one.
        let cursor = cursor.flatMap { Int64($0) }
        switch live {
        case nil: return .catchUp
        case "long-poll": return .longPoll(cursor: cursor)
        case "sse": return .events(cursor: cursor)
        default: throw RESTError(400, "live must be long-poll or sse")
        }
    }
}
