internal import Tree

/// Messages as CloudEvents 1.0, in the JSON format.
enum CloudEvent {
    static let contentType = "application/cloudevents+json"
    static let batchContentType = "application/cloudevents-batch+json"

    /// One event. The message is its data; `partitionkey` is of the partitioning extension.
    static func encode(_ message: SinkMessage) -> [UInt8] {
        var writer = JSONWriter(form: .plain, reserving: message.json.count + 512)
        writer.beginObject()
        let attributes = [
            ("specversion", "1.0"), ("id", message.id), ("source", "/\(message.namespace)/feeds/\(message.feed)"),
            ("type", "pathmirror.record.\(message.event)"), ("subject", message.path), ("time", message.time),
            ("datacontenttype", "application/json"),
        ]
        for (index, (name, value)) in attributes.enumerated() {
            writer.writeKey(name, isFirst: index == 0)
            writer.writeString(value)
        }
        if !message.key.isEmpty {
            writer.writeKey("partitionkey", isFirst: false)
            writer.writeString(message.key)
        }
        writer.writeKey("data", isFirst: false)
        writer.append(message.json)
        writer.endObject()
        return writer.bytes
    }

    /// An array of events.
    static func encode(batch messages: [SinkMessage]) -> [UInt8] {
        var bytes = Array("[".utf8)
        for (index, message) in messages.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            bytes += encode(message)
        }
        bytes.append(UInt8(ascii: "]"))
        return bytes
    }
}
