internal import Crypto
internal import Runtime
internal import Tree

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

/// Signatures as Standard Webhooks has them: of version 1, by HMAC-SHA-256 with a secret that both sides know.
enum WebhookSignature {
    static let secretPrefix = "whsec_"
    /// What Standard Webhooks asks of a secret.
    static let secretBytes = 24...64

    struct BadSecret: Error {
        let reason: String
    }

    /// The key in a secret's text.
    static func key(_ text: String) throws(BadSecret) -> [UInt8] {
        guard text.hasPrefix(secretPrefix) else {
            throw BadSecret(reason: "a secret is \(secretPrefix) and Base64, as openssl rand -base64 32 makes it")
        }
        let digits = text.utf8.dropFirst(secretPrefix.utf8.count)
        // The alphabet for URLs would be another key to libraries that pass over what they don't know.
        let isStandard = !digits.contains(UInt8(ascii: "-")) && !digits.contains(UInt8(ascii: "_"))
        let bare = Array(digits.reversed().drop { $0 == UInt8(ascii: "=") }.reversed()).map { digit in
            switch digit {
            case UInt8(ascii: "+"): UInt8(ascii: "-")
            case UInt8(ascii: "/"): UInt8(ascii: "_")
            default: digit
            }
        }
        guard isStandard, digits.count % 4 == 0, digits.count - bare.count < 3, let key = Base64URL.decode(bare) else {
            throw BadSecret(reason: "what follows \(secretPrefix) is not Base64 with its padding")
        }
        guard secretBytes.contains(key.count) else {
            let (least, most) = (secretBytes.lowerBound, secretBytes.upperBound)
            throw BadSecret(reason: "a secret has \(least) to \(most) bytes, and this one has \(key.count)")
        }
        return key
    }

    /// The header `webhook-signature`: one signature for each key.
    static func header(
        id: String, timestampSeconds: Int64, body: [UInt8], keys: [Secret<[UInt8]>]
    ) -> String {
        let signed = Array("\(id).\(timestampSeconds).".utf8) + body
        return keys.map { key in
            let digest = HMAC.sha256(signed, key: key.revealed())
            return "v1," + String(decoding: Base64.encode(digest), as: UTF8.self)
        }.joined(separator: " ")
    }
}
