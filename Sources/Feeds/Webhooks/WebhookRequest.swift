internal import Crypto
internal import Runtime

/// What a delivery says: body, and the headers that go with it. A value; nothing is sent here.
struct WebhookRequest {
    /// The same for the same messages, however often they are delivered.
    let id: String
    let headers: [(name: String, value: String)]
    let body: [UInt8]

    /// - Parameters:
    ///   - messages: one at least.
    ///   - isBatch: whether the definition lets requests have several: then a single one has their form, too.
    ///   - keys: one signature for each.
    init(
        _ messages: [SinkMessage], format: WebhookDefinition.Format, isBatch: Bool, keys: [Secret<[UInt8]>],
        timestampSeconds: Int64
    ) {
        id = Self.id(messages.map(\.id))
        let contentType: String
        switch (format, isBatch) {
        case (.message, false):
            contentType = "application/json"
            body = messages.first?.json ?? []
        case (.message, true):
            contentType = "application/json"
            body = Self.array(messages)
        case (.cloudEvents, false):
            contentType = CloudEvent.contentType
            body = messages.first.map { CloudEvent.encode($0) } ?? []
        case (.cloudEvents, true):
            contentType = CloudEvent.batchContentType
            body = CloudEvent.encode(batch: messages)
        }
        headers = [
            ("content-type", contentType), ("webhook-id", id), ("webhook-timestamp", String(timestampSeconds)),
            (
                "webhook-signature",
                WebhookSignature.header(id: id, timestampSeconds: timestampSeconds, body: body, keys: keys)
            ),
        ]
    }

    /// A message's own id, or one made of the ids of several: another selection of them, as after a delivery that failed in
    /// part, is another delivery to whoever remembers ids.
    static func id(_ ids: [String]) -> String {
        if ids.count == 1 { return ids[0] }
        return "batch_" + Hex.encode(Digest.sha256(Array(ids.joined(separator: "\n").utf8)).prefix(16))
    }

    private static func array(_ messages: [SinkMessage]) -> [UInt8] {
        var bytes = Array("{\"messages\":[".utf8)
        bytes.reserveCapacity(messages.reduce(16) { $0 + $1.json.count + 1 })
        for (index, message) in messages.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            bytes += message.json
        }
        bytes += Array("]}".utf8)
        return bytes
    }
}
