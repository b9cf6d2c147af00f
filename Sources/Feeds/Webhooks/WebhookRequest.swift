internal import Crypto
internal import Runtime
internal import Tree

/// The content of a delivery: the body and its headers. A value that sends nothing itself.
struct WebhookRequest {
    /// The delivery's id, which depends only on the messages.
    let id: String
    let headers: [(name: String, value: String)]
    let body: [UInt8]

    /// Returns nil if the format needs a part of a message that the message does not have.
    ///
    /// - Parameters:
    ///   - messages: At least one message.
    ///   - kind: The kind of event, for the format `firebase`.
    ///   - isBatch: Whether the definition allows several messages in a request. A single message then uses the batch format, too.
    ///   - keys: The signing keys, each for one signature.
    init?(
        _ messages: [SinkMessage], format: WebhookDefinition.Format, kind: FirebaseEvent.Kind, isBatch: Bool,
        keys: [Secret<[UInt8]>], timestampSeconds: Int64
    ) {
        id = Self.id(messages.map(\.id))
        let contentType: String
        var attributes: [(name: String, value: String)] = []
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
        case (.firebase, _):
            guard let message = messages.first, let values = message.values else { return nil }
            contentType = "application/json"
            attributes = FirebaseEvent.headers(message, kind)
            body = FirebaseEvent.body(values)
        }
        headers =
            attributes + [
                ("content-type", contentType), ("webhook-id", id), ("webhook-timestamp", String(timestampSeconds)),
                (
                    "webhook-signature",
                    WebhookSignature.header(id: id, timestampSeconds: timestampSeconds, body: body, keys: keys)
                ),
            ]
    }

    /// Returns a message's own id, or an id derived from the ids of several messages. A different selection of messages, as after a
    /// partly failed delivery, is another delivery for receivers that remember ids.
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

/// Encodes messages as CloudEvents 1.0, in the JSON format.
enum CloudEvent {
    static let contentType = "application/cloudevents+json"
    static let batchContentType = "application/cloudevents-batch+json"

    /// Returns one event. Its data is the message; `partitionkey` belongs to the partitioning extension.
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

    /// Returns an array of events.
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

/// Signatures according to Standard Webhooks, version 1: HMAC-SHA-256 with a shared secret.
enum WebhookSignature {
    static let secretPrefix = "whsec_"
    /// The length of a secret that Standard Webhooks requires, in bytes.
    static let secretBytes = 24...64

    struct BadSecret: Error {
        let reason: String
    }

    /// Returns the key in a secret's text.
    static func key(_ text: String) throws(BadSecret) -> [UInt8] {
        guard text.hasPrefix(secretPrefix) else {
            throw BadSecret(
                reason: "a secret is \(secretPrefix) and Base64, such as the output of openssl rand -base64 32")
        }
        let digits = text.utf8.dropFirst(secretPrefix.utf8.count)
        // Libraries that skip unknown characters would derive another key from the URL-safe alphabet.
        let isStandard = !digits.contains(UInt8(ascii: "-")) && !digits.contains(UInt8(ascii: "_"))
        let bare = Array(digits.reversed().drop { $0 == UInt8(ascii: "=") }.reversed()).map { digit in
            switch digit {
            case UInt8(ascii: "+"): UInt8(ascii: "-")
            case UInt8(ascii: "/"): UInt8(ascii: "_")
            default: digit
            }
        }
        guard isStandard, digits.count % 4 == 0, digits.count - bare.count < 3, let key = Base64URL.decode(bare) else {
            throw BadSecret(reason: "the text after \(secretPrefix) is not Base64 with padding")
        }
        guard secretBytes.contains(key.count) else {
            let (least, most) = (secretBytes.lowerBound, secretBytes.upperBound)
            throw BadSecret(reason: "a secret has \(least) to \(most) bytes, and this one has \(key.count)")
        }
        return key
    }

    /// Returns the value of the header `webhook-signature`: one signature for each key.
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
