import Crypto
import Engine
import LogStore
import Tree
import Wire

/// The parameters of a request for the log.
struct LogParameters: Equatable {
    /// The form of the answer.
    enum Mode: Equatable {
        /// The lines that the log has now, as one array.
        case catchUp
        /// The lines that the log has now, as one array. At the log's end the request waits for the next line.
        case longPoll(cursor: Int64?)
        /// The lines that the log has now and later ones, as server-sent events.
        case events(cursor: Int64?)
    }

    /// The position at which to begin.
    enum Start: Equatable {
        /// After the last entry that the log has now.
        case head
        /// With the oldest retained entry.
        case oldest
        /// After a position.
        case after(LogLinePosition)
    }

    let mode: Mode
    let start: Start
    /// The path whose changes the client requests; nil for everything that it may see.
    let path: Path?

    private static let names: Set<String> = ["path", "offset", "live", "cursor"]

    /// - Parameter query: still percent-encoded. Unknown names are ignored, as the protocol requires of servers.
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
            guard let position = LogPositionText.position(offset: text) else {
                throw RESTError(400, "offset must be -1, now, or the Stream-Next-Offset of an answer")
            }
            return .after(position)
        }
    }

    private static func mode(live: String?, cursor: String?) throws(RESTError) -> Mode {
        // A cursor that this server did not issue has no meaning; the answer merely must have a different one.
        let cursor = cursor.flatMap { Int64($0) }
        switch live {
        case nil: return .catchUp
        case "long-poll": return .longPoll(cursor: cursor)
        case "sse": return .events(cursor: cursor)
        default: throw RESTError(400, "live must be long-poll or sse")
        }
    }
}

/// Converts positions in the log to offsets: texts that clients store and send back.
enum LogPositionText {
    /// Batches have 16 bytes; a much longer text can't be a batch.
    private static let maxBatchBytes = 32
    /// No log reaches this seq. The limit keeps arithmetic with a client's seq from overflowing.
    static let maxSeq = Int64.max / 2

    /// Returns `SEQ_PART_LINES_BATCH`, with numbers of full width, so that offsets sort as positions do.
    static func offset(_ position: LogLinePosition) -> String {
        // Within an entry, parts count from 1, so that they sort after the position before the entry's first line.
        let part = position.inside.map { Int64($0.part) + 1 } ?? 0
        let lines = position.inside.map { Int64($0.lines) } ?? 0
        let batch = (position.inside == nil ? position.entry.batch : position.inside?.batch).map(Base64URL.encode) ?? ""
        return "\(padded(position.seq, 19))_\(padded(part, 10))_\(padded(lines, 10))_\(batch)"
    }

    /// Parses an offset in the exact form of `offset`.
    static func position(offset text: String) -> LogLinePosition? {
        let parts = text.split(separator: "_", maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count == 4, zip(parts, [19, 10, 10]).allSatisfy({ $0.utf8.count == $1 }) else { return nil }
        guard let seq = number(parts[0]), seq <= maxSeq, let part = number(parts[1]), let lines = number(parts[2]),
            part <= Int64(Int32.max), lines < max(part, 1)
        else { return nil }
        let batch = batch(parts[3])
        guard batch != nil || parts[3].isEmpty else { return nil }
        guard part > 0 else { return LogLinePosition(LogPosition(seq: seq, batch: batch)) }
        return LogLinePosition(
            LogPosition(seq: seq),
            inside: LogLinePosition.Inside(batch: batch, part: Int32(part - 1), lines: Int32(lines)))
    }

    // MARK: Fields

    private static func number(_ text: Substring) -> Int64? {
        text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) ? Int64(text) : nil
    }

    private static func batch(_ text: Substring) -> [UInt8]? {
        guard let bytes = Base64URL.decode(text.utf8), (1...maxBatchBytes).contains(bytes.count) else { return nil }
        return bytes
    }

    private static func padded(_ value: Int64, _ width: Int) -> String {
        let digits = String(value)
        return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
    }
}
