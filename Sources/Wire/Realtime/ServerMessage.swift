public import Tree

/// A parsed message of a realtime server (reference: rtdb-protocol 1.2 and 2).
public enum ServerMessage: Sendable, Equatable {
    case control(ServerControl)
    /// The answer to a request.
    case response(ServerResponse)
    /// A message that is not the answer to a request.
    case push(ServerPush)

    /// The message's text.
    public var text: [UInt8] {
        switch self {
        case .control(let control): control.text
        case .response(let response):
            Self.answer(response.number, response.status.rawValue, .raw(response.detail.text), response.mark)
        case .push(let push): push.text
        }
    }
}

/// Functions that write messages directly: a server sends very many, and parts of some messages are reused.
extension ServerMessage {
    /// Returns the greeting.
    ///
    /// - Parameters:
    ///   - host: the host that the client used, including the port; never the bind address (1.3).
    ///   - isExtended: confirms the gateway's extension to a client that has requested it.
    public static func hello(timestamp: Int64, host: String, session: String, isExtended: Bool = false) -> [UInt8] {
        hello(timestamp: timestamp, host: host, session: session, version: "5", isExtended: isExtended)
    }

    static func hello(
        timestamp: Int64, host: String, session: String, version: String, isExtended: Bool
    ) -> [UInt8] {
        var writer = JSONWriter(form: .export, reserving: 160)
        writer.raw("{\"t\":\"c\",\"d\":{\"t\":\"h\",\"d\":{\"ts\":")
        writer.writeInteger(timestamp)
        writer.raw(",\"v\":")
        writer.writeString(version)
        writer.raw(",\"h\":")
        writer.writeString(host)
        writer.raw(",\"s\":")
        writer.writeString(session)
        if isExtended {
            writer.writeKey(RealtimeParameters.extensionName, isFirst: false)
            writer.writeInteger(RealtimeParameters.extensionVersion)
        }
        writer.raw("}}}")
        return writer.bytes
    }

    public static let pong = Array("{\"t\":\"c\",\"d\":{\"t\":\"o\",\"d\":null}}".utf8)

    /// Offers a polling client to switch to its socket (reference: rtdb-protocol 1.8).
    public static let upgradeOffer = Array("{\"t\":\"c\",\"d\":{\"t\":\"a\",\"d\":null}}".utf8)
    /// Reports the end of the messages by polling.
    public static let endOfTransmission = Array("{\"t\":\"c\",\"d\":{\"t\":\"n\",\"d\":null}}".utf8)

    /// Redirects the client to another host or, during a transport upgrade, back to the old transport.
    public static func reset(host: String) -> [UInt8] {
        var writer = JSONWriter(form: .export, reserving: 64)
        writer.raw("{\"t\":\"c\",\"d\":{\"t\":\"r\",\"d\":")
        writer.writeString(host)
        writer.raw("}}")
        return writer.bytes
    }

    /// The content of an answer besides its status.
    public enum Detail: Sendable {
        /// `""`, the answer to most actions.
        case none
        /// `{}`: listens need an object (3.3).
        case emptyObject
        case noIndex
        case text(String)
        case value(Node)
        /// Encoded JSON.
        case raw([UInt8])
    }

    /// Returns the answer to a numbered request (reference: rtdb-protocol 2.1).
    ///
    /// - Parameter mark: only for clients that have requested the gateway's extension.
    public static func answer(_ number: Int64, _ status: String, _ detail: Detail, _ mark: LogMark? = nil) -> [UInt8] {
        var writer = JSONWriter(form: .export, reserving: 96)
        writer.raw("{\"t\":\"d\",\"d\":{\"r\":")
        writer.writeInteger(number)
        writer.raw(",\"b\":{\"s\":")
        writer.writeString(status)
        writer.raw(",\"d\":")
        switch detail {
        case .none: writer.raw("\"\"")
        case .emptyObject: writer.raw("{}")
        case .noIndex: writer.raw("{\"w\":[\"no_index\"]}")
        case .text(let text): writer.writeString(text)
        case .value(let node): writer.write(node)
        case .raw(let json): writer.append(json)
        }
        if let mark { write(mark, &writer) }
        writer.raw("}}}")
        return writer.bytes
    }

    /// Returns a push without its end, to which `finish` adds the tag. So one encoding serves listens with different
    /// tags.
    public static func push(_ event: ChangeEvent, listener: Path, isTagged: Bool) -> [UInt8] {
        var writer = JSONWriter(form: .export, reserving: 160)
        switch event {
        case .put(let path, let value) where path.isRoot || !isTagged:
            begin(&writer, "d", listener.appending(path))
            writer.write(value)
        case .put(let path, let value):
            // Changes of a query's result are merges at the listen's own path (3.4).
            begin(&writer, "m", listener)
            merge(&writer, [Change(path: path, value: value)])
        case .patch(let path, let changes):
            begin(&writer, "m", listener.appending(path))
            merge(&writer, changes)
        }
        return writer.bytes
    }

    /// Returns a push completed with the listen's tag, if it has one. Listens that share a push differ only in the tag.
    public static func finish(_ push: [UInt8], tag: Int64?) -> [UInt8] {
        var bytes = push
        if let tag { bytes.append(contentsOf: ",\"t\":\(tag)".utf8) }
        bytes.append(contentsOf: "}}}".utf8)
        return bytes
    }

    /// Returns an incomplete push with the mark of its data, for clients that have requested the gateway's extension.
    public static func marked(_ push: [UInt8], _ mark: LogMark?) -> [UInt8] {
        guard let mark else { return push }
        var writer = JSONWriter(form: .export, reserving: 64)
        write(mark, &writer)
        return push + writer.bytes
    }

    private static func write(_ mark: LogMark, _ writer: inout JSONWriter) {
        writer.writeKey(LogMark.member, isFirst: false)
        writer.writeString(mark.text)
    }

    private static func begin(_ writer: inout JSONWriter, _ action: StaticString, _ path: Path) {
        writer.raw("{\"t\":\"d\",\"d\":{\"a\":\"")
        writer.raw(action)
        writer.raw("\",\"b\":{\"p\":")
        writer.writeString(String(path.description.unicodeScalars.dropFirst()))
        writer.raw(",\"d\":")
    }

    private static func merge(_ writer: inout JSONWriter, _ changes: [Change]) {
        writer.beginObject()
        for (index, change) in changes.enumerated() {
            writer.writeKey(String(change.path.description.unicodeScalars.dropFirst()), isFirst: index == 0)
            writer.write(change.value)
        }
        writer.endObject()
    }

    /// Returns the differing parts of a listen's data (3.7), without the end of the push.
    public static func rangeMerge(_ ranges: [RangeMerge], listener: Path) -> [UInt8] {
        var writer = JSONWriter(form: .export, reserving: 256)
        begin(&writer, "rm", listener)
        writer.raw("[")
        for (index, range) in ranges.enumerated() {
            if index > 0 { writer.raw(",") }
            writer.beginObject()
            var isFirst = true
            if let start = range.start {
                writer.writeKey("s", isFirst: true)
                writer.writeString(String(start.description.unicodeScalars.dropFirst()))
                isFirst = false
            }
            if let end = range.end {
                writer.writeKey("e", isFirst: isFirst)
                writer.writeString(String(end.description.unicodeScalars.dropFirst()))
                isFirst = false
            }
            writer.writeKey("m", isFirst: isFirst)
            range.write(to: &writer)
            writer.endObject()
        }
        writer.raw("]")
        return writer.bytes
    }

    /// Returns the message that a listen has lost its permission.
    ///
    /// - Parameter query: the query as the client wrote it; nil for a default listen.
    public static func cancel(_ path: Path, query: [UInt8]?) -> [UInt8] {
        var writer = JSONWriter(form: .export, reserving: 96)
        writer.raw("{\"t\":\"d\",\"d\":{\"a\":\"c\",\"b\":{\"p\":")
        writer.writeString(String(path.description.unicodeScalars.dropFirst()))
        if let query {
            writer.raw(",\"q\":[")
            writer.append(query)
            writer.raw("]")
        }
        writer.raw("}}}")
        return writer.bytes
    }

    /// Returns the message that the login has ended.
    public static func authRevoked(_ status: String, _ text: String) -> [UInt8] { revoked("ac", status, text) }

    static func revoked(_ action: StaticString, _ status: String, _ text: String) -> [UInt8] {
        var writer = JSONWriter(form: .export, reserving: 96)
        writer.raw("{\"t\":\"d\",\"d\":{\"a\":\"")
        writer.raw(action)
        writer.raw("\",\"b\":{\"s\":")
        writer.writeString(status)
        writer.raw(",\"d\":")
        writer.writeString(text)
        writer.raw("}}}")
        return writer.bytes
    }
}
