internal import Crypto
internal import Runtime

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
