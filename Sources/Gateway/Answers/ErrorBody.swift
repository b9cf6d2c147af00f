import Tree

/// `{"error":"…"}`, printed as the original prints it.
enum ErrorBody {
    static func encode(_ message: String) -> [UInt8] {
        var writer = JSONWriter(form: .plain, pretty: true)
        writer.beginObject()
        writer.writeKey("error", isFirst: true)
        writer.writeString(message)
        writer.endObject()
        return writer.bytes + [0x0A]
    }
}
