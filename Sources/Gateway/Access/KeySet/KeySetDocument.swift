import Crypto
import HTTPClient
import Tokens

/// An issuer's published keys: a JWK set (RFC 7517), or an object of X.509 certificates by key id.
struct KeySetDocument {
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    /// The keys that can sign RS256 tokens, by key id.
    let keys: [String: RSAPublicKey]

    static let maxBytes = 1 << 20
    private static let maxKeys = 1_000

    init(_ body: [UInt8]) throws(Failure) {
        let fields: Claims
        do throws(JWTError) { fields = try ClaimsReader.object(body) } catch {
            throw Failure(description: "the key set is not a JSON object")
        }
        var keys: [String: RSAPublicKey] = [:]
        if case .array(let items)? = fields["keys"] {
            for case .object(let item) in items.prefix(Self.maxKeys) {
                // Other kinds of keys do not sign RS256 tokens.
                if let (id, key) = Self.webKey(item) { keys[id] = key }
            }
        } else {
            for member in fields.members.prefix(Self.maxKeys) {
                guard let text = member.value.string, let key = try? RSAPublicKey(certificatePEM: text) else {
                    continue
                }
                keys[member.name] = key
            }
        }
        guard !keys.isEmpty else { throw Failure(description: "the key set has no RSA key in it") }
        self.keys = keys
    }

    private static func webKey(_ item: Claims) -> (String, RSAPublicKey)? {
        guard item["kty"] == "RSA", let id = item["kid"]?.string, !id.isEmpty,
            item["use"] == nil || item["use"] == "sig", item["alg"] == nil || item["alg"] == "RS256",
            let modulus = item["n"]?.string.flatMap({ Base64URL.decode($0.utf8) }),
            let exponent = item["e"]?.string.flatMap({ Base64URL.decode($0.utf8) }),
            let key = try? RSAPublicKey(modulus: modulus, exponent: exponent)
        else { return nil }
        return (id, key)
    }

    /// Returns how many milliseconds a response may be kept: its `max-age` minus its `Age`.
    static func life(of response: ClientResponse) -> Int64? {
        guard let control = response.header("cache-control")?.lowercased() else { return nil }
        let directives = control.split(separator: ",").map { $0.split(separator: " ").joined() }
        if directives.contains("no-store") || directives.contains("no-cache") { return 0 }
        guard let text = directives.first(where: { $0.hasPrefix("max-age=") })?.dropFirst(8), let seconds = Int64(text),
            (0...1_000_000_000).contains(seconds)
        else { return nil }
        let age = response.header("age").flatMap { Int64($0) } ?? 0
        return max(0, seconds - max(0, min(age, 1_000_000_000))) * 1_000
    }
}
