import Engine
import Tree

/// Slices of the log as bytes of an answer, by the protocol of durable streams.
enum LogFrames {
    /// All lines as one array.
    static func array(_ slice: LogSlice) -> [UInt8] {
        var bytes: [UInt8] = [UInt8(ascii: "[")]
        bytes.reserveCapacity(slice.lines.reduce(2) { $0 + $1.count + 1 })
        for (index, line) in slice.lines.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            bytes += line
        }
        bytes.append(UInt8(ascii: "]"))
        return bytes
    }

    /// The lines as one event, if there are any, then an event with the place after them.
    static func events(_ slice: LogSlice, cursor: Int64) -> [UInt8] {
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

    /// A sign of life: a comment of the stream.
    static let comment = Array(": keep-alive\n\n".utf8)
}
