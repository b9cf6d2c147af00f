import Crypto
import Runtime
import Testing

@testable import Feeds

/// Checks that libraries of Standard Webhooks accept the gateway's signatures.
@Suite struct WebhookSignatureTests {
    struct Vector: Sendable {
        let secret: String
        let id: String
        let timestampSeconds: Int64
        let body: String
        let signature: String
    }

    /// Created by the project's own Python library, standardwebhooks 1.1.0.
    static let vectors = [
        Vector(
            secret: "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", id: "default:42:0", timestampSeconds: 1_763_805_600,
            body: #"{"id":"default:42:0","value":{"name":"Zoë","n":1}}"#,
            signature: "v1,SE4x1f6M13qbgHo37JrbN/9BDge5l/IHiGZ6HIwAcUw="),
        Vector(
            secret:
                "whsec_//79/Pv6+fj39vX08/Lx8O/u7ezr6uno5+bl5OPi4eDf3t3c29rZ2NfW1dTT0tHQz87NzMvKycjHxsXEw8LBwA==",
            id: "default:42:s7", timestampSeconds: 1, body: "",
            signature: "v1,WUXxu7BtgAe8V2R9/8dsZOeZPBcxHx7AOhha8PfbBPA="),
        Vector(
            secret: "whsec_TWZLUTlyOEdLWXFyVHdqVVBEOElMUFpJbzJMYUxhU3c=",
            id: "batch_0123456789abcdef0123456789abcdef", timestampSeconds: 1_763_805_600, body: #"{"messages":[]}"#,
            signature: "v1,z1JR0oegSvHW/3IOHQDY4vvbmj37xRaGvZDKwHtxHoA="),
    ]

    @Test(arguments: vectors) func agreesWithTheReferenceLibrary(_ vector: Vector) throws {
        let key = Secret(try WebhookSignature.key(vector.secret))
        let header = WebhookSignature.header(
            id: vector.id, timestampSeconds: vector.timestampSeconds, body: Array(vector.body.utf8), keys: [key])
        #expect(header == vector.signature)
    }

    @Test func oneSignatureForEachSecret() throws {
        let keys = try Self.vectors.map { Secret(try WebhookSignature.key($0.secret)) }
        let sign = { WebhookSignature.header(id: "a:1:0", timestampSeconds: 7, body: [1], keys: $0) }
        #expect(sign(keys) == keys.map { sign([$0]) }.joined(separator: " "))
    }

    @Test(arguments: [
        ("", "whsec_"), ("whsec_", "24 to 64"), ("AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", "whsec_"),
        ("WHSEC_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", "whsec_"),
        // 23 and 65 bytes.
        ("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRY=", "24 to 64"),
        ("whsec_" + String(repeating: "AAAA", count: 21) + "AAA=", "24 to 64"),
        // Missing padding, too much padding, padding inside, white space, the other alphabet.
        ("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGA", "Base64"),
        ("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX====", "Base64"),
        ("whsec_AAECAwQF=gcICQoLDA0ODxAREhMUFRYX", "Base64"), ("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRY\n", "Base64"),
        ("whsec_AAECAwQFBgcICQoLDA0ODxAREhMU-_YX", "Base64"),
    ]) func whatIsNoSecret(_ text: String, _ reason: String) {
        do {
            _ = try WebhookSignature.key(text)
            Issue.record("it was taken")
        } catch {
            #expect(error.reason.contains(reason))
            #expect(text.utf8.count < 10 || !error.reason.contains(text.dropFirst(6)))
        }
    }

    @Test func secretsOfEveryLengthAreRead() throws {
        for count in 24...64 {
            let key = (0..<count).map { UInt8(truncatingIfNeeded: $0 * 37 + count) }
            let text = "whsec_" + String(decoding: Base64.encode(key), as: UTF8.self)
            #expect(try WebhookSignature.key(text) == key)
        }
    }
}
