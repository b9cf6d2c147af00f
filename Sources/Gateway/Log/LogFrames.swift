import Engine
import Tree

/// Slices of the log as bytes of an answer.
enum LogFrames {
    /// A line for each, and nothing else (NDJSON).
    static func lines(_ slice: LogSlice) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(slice.lines.reduce(0) { $0 + $1.json.count + 1 })
        for line in slice.lines {
            bytes += line.json
            bytes.append(0x0A)
        }
        return bytes
    }

    /// An event for each. One that ends an entry has an id; the others have none, so that who comes back begins with the
    /// entry's first again.
    static func events(_ slice: LogSlice) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(slice.lines.reduce(0) { $0 + $1.json.count + 64 })
        for line in slice.lines {
            bytes += "event: entry\n".utf8
            if line.place.inside == nil { bytes += "id: \(LogPlaceText.eventID(line.place))\n".utf8 }
            bytes += "data: ".utf8
            bytes += line.json
            bytes += "\n\n".utf8
        }
        return bytes
    }

    /// Tells a client how far it is without an event: who comes back need not be shown again what did not concern it.
    static func progress(_ place: LogPlace) -> [UInt8] { Array("id: \(LogPlaceText.eventID(place))\n\n".utf8) }

    /// A sign of life: a comment of the stream.
    static let comment = Array(": keep-alive\n\n".utf8)
    /// The same between lines. Readers of NDJSON pass over empty ones.
    static let emptyLine: [UInt8] = [0x0A]

    /// All lines as one array.
    static func array(_ slice: LogSlice) -> [UInt8] {
        var bytes: [UInt8] = [UInt8(ascii: "[")]
        bytes.reserveCapacity(slice.lines.reduce(2) { $0 + $1.json.count + 1 })
        for (index, line) in slice.lines.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            bytes += line.json
        }
        bytes.append(UInt8(ascii: "]"))
        return bytes
    }

    /// The lines as one event of the protocol of durable streams, if there are any, and behind it where to go on.
    static func durableEvents(_ slice: LogSlice, cursor: Int64) -> [UInt8] {
        var bytes: [UInt8] = []
        if !slice.lines.isEmpty {
            bytes += "event: data\ndata: ".utf8
            bytes += array(slice)
            bytes += "\n\n".utf8
        }
        var control = JSONWriter(form: .export)
        control.beginObject()
        control.writeKey("streamNextOffset", isFirst: true)
        control.writeString(LogPlaceText.offset(slice.end))
        control.writeKey("streamCursor", isFirst: false)
        control.writeString("\(cursor)")
        if slice.isAtEnd {
            control.writeKey("upToDate", isFirst: false)
            control.write(.bool(true))
        }
        control.endObject()
        bytes += "event: control\ndata: ".utf8
        bytes += control.bytes
        bytes += "\n\n".utf8
        return bytes
    }
}
