import Crypto
import Tokens
import Wire

extension FuzzTarget {
    /// Requests for access tokens: the form, and the assertion in it.
    static let tokenRequest = FuzzTarget(
        name: "token-request",
        corpus: [
            "\(grant)&assertion=\(unsigned)", "\(grant)&assertion=a.b.c&scope=x+y", "assertion=x&\(grant)",
            "grant_type=password", "grant_type=%zz&assertion=%41", "&&=&grant_type", "\(grant)&assertion=a&assertion=b",
        ],
        tokens: [
            "grant_type=", "assertion=", grant, "&", "=", "%", "+", "%2E", ".", "eyJ", unsigned, "scope=",
            String(repeating: "A", count: 3_000),
        ]
    ) { input, summary in
        let request: TokenRequest
        do throws(TokenRefusal) {
            request = try TokenRequest(input)
        } catch {
            summary.note(error.code)
            return error.error.status == 400 ? nil : "a refusal with the status \(error.error.status)"
        }
        guard input.count <= TokenRequest.maxBytes, !request.assertion.isEmpty else { return "a bad form is accepted" }
        let written = "\(grant)&assertion=\(PercentEncoding.encode(request.assertion.utf8))"
        if written.utf8.count <= TokenRequest.maxBytes, (try? TokenRequest(Array(written.utf8))) != request {
            return "the written form reads as another"
        }
        guard let assertion = try? ServiceAssertion(request.assertion) else { return nil }
        summary.noteSize(assertion.keyID.utf8.count)
        guard request.assertion.utf8.count <= ServiceAssertion.maxBytes else { return "a long assertion is accepted" }
        guard case .success(let key) = key else { return "libcrypto has no key" }
        // Nothing in the corpus is signed.
        return (try? assertion.verifySignature(key)) == nil ? nil : "a forged assertion is accepted"
    }.measuring { _ = try? TokenRequest($0) }

    private static let grant = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"
    private static let unsigned =
        Base64URL.encode(Array(#"{"alg":"RS256","kid":"k"}"#.utf8)) + "."
        + Base64URL.encode(Array(#"{"iss":"a","aud":"b","iat":1,"exp":2}"#.utf8)) + "."
        + String(repeating: "A", count: 342)
    private static let key = Result { () throws(CryptoError) in
        try RSAPublicKey(der: try RSAPrivateKey.generate().publicKeyDER())
    }
}
