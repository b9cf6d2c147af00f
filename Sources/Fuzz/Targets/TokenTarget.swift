import Crypto
import Tokens
import Tree

extension FuzzTarget {
    /// JSON Web Tokens. An input is a token's text or, if it contains line breaks, the unencoded parts of a token, so
    /// that mutations get past Base64.
    static let token = FuzzTarget(
        name: "token",
        corpus: [
            JWT.mint(["sub": "u", "iat": 1], secret: secret),
            JWT.mintUnsigned(["uid": "é", "claims": ["a": [1, true]]]), "..", "a.b.c",
            "{\"alg\":\"HS256\",\"typ\":\"JWT\"}\n{\"sub\":\"u\"}\nsignature", "{\"alg\":\"none\"}\n{}\n",
            "{\"alg\":\"RS256\",\"kid\":\"k1\"}\n{\"iss\":\"x\",\"aud\":[\"y\"]}\n"
                + String(repeating: "s", count: 256),
            "{\"alg\":\"RS512\",\"crit\":[\"b64\"]}\n{\"exp\":1}\nx",
        ],
        tokens: [
            ".", "\n", "{", "}", "\"", ":", ",", "\"alg\":", "\"none\"", "\"HS256\"", "\"RS256\"", "\"kid\":",
            "\"crit\":", "=", "-", "_", "+",
            "/", "A", "eyJ", "null", "\"a\":1", "\\u0061", "é", String(repeating: "A", count: 300),
        ]
    ) { input, summary in
        let text = compact(input)
        guard Base64URL.decode(Base64URL.encode(input).utf8) == input else { return "Base64 decodes to other bytes" }
        let token: JWT
        do throws(JWTError) {
            token = try JWT(text)
        } catch {
            if case .wrongAlgorithm = error { summary.note(1) } else { summary.note(error.description) }
            return nil
        }
        summary.note(token.algorithm.rawValue)
        summary.noteSize(token.claims.members.count)
        guard JWT.looksLikeToken(text) else { return "a token that is not recognized as a token" }
        // Each part has one spelling, so that no other text is the same token.
        for part in text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false) {
            guard let bytes = Base64URL.decode(part), Base64URL.encode(bytes).utf8.elementsEqual(part) else {
                return "a part with two spellings"
            }
        }
        // The secret has signed only the token in the corpus.
        if (try? token.verify(withSecret: secret)) != nil, token.claims != ["sub": "u", "iat": 1] {
            return "a forged token is accepted"
        }
        return minted(token.claims, input) ?? key(input, text, token)
    }.measuring { _ = try? JWT(String(decoding: $0, as: UTF8.self)) }

    private static let secret = Array("a secret of the fuzzer's own".utf8)
    private static let otherSecret = Array("another secret".utf8)

    private static func compact(_ input: [UInt8]) -> String {
        guard input.contains(0x0A) else { return String(decoding: input, as: UTF8.self) }
        return input.split(separator: 0x0A, omittingEmptySubsequences: false).map { Base64URL.encode(Array($0)) }
            .joined(separator: ".")
    }

    /// Checks that a token with these claims is valid only with its secret, and invalid after a change of any byte.
    private static func minted(_ claims: Tokens.Claims, _ input: [UInt8]) -> String? {
        let text = JWT.mint(claims, secret: otherSecret)
        guard text.utf8.count <= JWT.maxBytes else { return nil }
        guard let token = try? JWT(text), token.claims == claims, (try? token.verify(withSecret: otherSecret)) != nil
        else { return "a minted token is rejected" }
        if (try? token.verify(withSecret: secret)) != nil { return "a token of another secret is accepted" }
        guard let unsigned = try? JWT(JWT.mintUnsigned(claims)), unsigned.claims == claims, unsigned.algorithm == .none
        else { return "an unsigned token is read differently" }
        if (try? unsigned.verify(withSecret: otherSecret)) != nil { return "an unsigned token is accepted" }
        var bytes = Array(text.utf8)
        let offset = (input.reduce(0) { ($0 &* 31) &+ Int($1) } & Int.max) % bytes.count
        bytes[offset] = bytes[offset] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
        if let changed = try? JWT(String(decoding: bytes, as: UTF8.self)),
            (try? changed.verify(withSecret: otherSecret)) != nil
        {
            return "a changed token is accepted"
        }
        return nil
    }

    /// Checks that bytes of the input, used as an RSA key, do not verify the token. Most inputs are not valid keys.
    private static func key(_ input: [UInt8], _ text: String, _ token: JWT) -> String? {
        guard let key = try? RSAPublicKey(modulus: Array(input.prefix(256)), exponent: [1, 0, 1]) else { return nil }
        return (try? token.verify(with: key)) == nil ? nil : "a key accepts a token that it did not sign"
    }
}
