import Tree

/// The body of the refusals that the HTTP server gives itself, in the form of all others.
enum ErrorReply {
    static func body(_ text: String) -> [UInt8] {
        var writer = JSONWriter(form: .plain, pretty: true)
        writer.beginObject()
        writer.writeKey("error", isFirst: true)
        writer.writeString(text)
        writer.endObject()
        return writer.bytes + [0x0A]
    }
}
