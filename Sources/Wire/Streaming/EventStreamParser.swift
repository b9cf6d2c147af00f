/// One event of an event stream.
public struct ServerSentEvent: Sendable, Equatable {
    /// The value of the field `event`; `message` if it is missing.
    public let name: String
    /// The lines of `data`, joined by line feeds.
    public let data: [UInt8]
    /// The newest id of the stream, which a client names when it reconnects; empty if there is none.
    public let lastEventID: String

    public init(name: String, data: [UInt8], lastEventID: String = "") {
        self.name = name
        self.data = data
        self.lastEventID = lastEventID
    }
}

/// The reason why the rest of a stream can't be parsed.
public enum EventStreamError: Error, Equatable, Sendable {
    /// A line, or an event's data, has more than `limit` bytes.
    case tooLong(limit: Int)
}

/// Parses an event stream in pieces of any size (HTML standard, "Server-sent events"; reference: rtdb-protocol 8).
/// Lines end with LF, CR or CR LF. Comments, unknown fields and events without data are skipped. Pure.
public struct EventStreamParser: Sendable {
    /// The newest id of the stream; empty if there is none.
    public private(set) var lastEventID = ""
    /// The server's requested delay before clients reconnect, in milliseconds.
    public private(set) var retryMilliseconds: Int64?

    private let maxBytes: Int
    /// The received part of an incomplete line.
    private var line: [UInt8] = []
    private var name = ""
    private var data: [UInt8] = []
    private var hasData = false
    /// Whether the last piece ended with a CR: a following LF belongs to it.
    private var endedWithCR = false
    /// Whether the next line is the first one, which may begin with a byte order mark.
    private var isFirstLine = true
    private var failure: EventStreamError?

    /// - Parameter maxBytes: maximum size of a line, and of the data of an event, in bytes.
    public init(maxBytes: Int) { self.maxBytes = maxBytes }

    /// Bytes that wait for the rest of their event.
    public var waitingBytes: Int { line.count + data.count }

    /// Parses the next piece and appends the events that it completes. After an error, every call throws that error.
    public mutating func take(
        _ piece: some Sequence<UInt8>, into events: inout [ServerSentEvent]
    ) throws(EventStreamError) {
        if let failure { throw failure }
        do throws(EventStreamError) {
            for byte in piece { try take(byte, &events) }
        } catch {
            failure = error
            (line, data) = ([], [])
            throw error
        }
    }

    private mutating func take(_ byte: UInt8, _ events: inout [ServerSentEvent]) throws(EventStreamError) {
        let followsCR = endedWithCR
        endedWithCR = false
        switch byte {
        case 0x0A where followsCR: break
        case 0x0A: try endLine(&events)
        case 0x0D:
            endedWithCR = true
            try endLine(&events)
        default:
            guard line.count < maxBytes else { throw .tooLong(limit: maxBytes) }
            line.append(byte)
        }
    }

    private mutating func endLine(_ events: inout [ServerSentEvent]) throws(EventStreamError) {
        defer { line.removeAll(keepingCapacity: true) }
        if isFirstLine {
            isFirstLine = false
            if line.starts(with: [0xEF, 0xBB, 0xBF]) { line.removeFirst(3) }
        }
        if line.isEmpty { return dispatch(&events) }
        let colon = line.firstIndex(of: UInt8(ascii: ":")) ?? line.endIndex
        var value = line[min(colon + 1, line.endIndex)...]
        if value.first == UInt8(ascii: " ") { value.removeFirst() }
        try field(String(decoding: line[..<colon], as: UTF8.self), value)
    }

    private mutating func field(_ field: String, _ value: ArraySlice<UInt8>) throws(EventStreamError) {
        switch field {
        case "event": name = String(decoding: value, as: UTF8.self)
        case "data":
            guard data.count + value.count + (hasData ? 1 : 0) <= maxBytes else { throw .tooLong(limit: maxBytes) }
            if hasData { data.append(0x0A) }
            data.append(contentsOf: value)
            hasData = true
        case "id": if !value.contains(0) { lastEventID = String(decoding: value, as: UTF8.self) }
        case "retry":
            if value.allSatisfy({ $0 &- 0x30 <= 9 }), let time = Int64(String(decoding: value, as: UTF8.self)) {
                retryMilliseconds = time
            }
        // A comment has an empty field name.
        default: break
        }
    }

    private mutating func dispatch(_ events: inout [ServerSentEvent]) {
        if hasData {
            let name = name.isEmpty ? "message" : name
            events.append(ServerSentEvent(name: name, data: data, lastEventID: lastEventID))
        }
        name = ""
        data = []
        hasData = false
    }
}
