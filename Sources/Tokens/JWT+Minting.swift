public import Crypto

extension JWT {
    /// A token signed by HMAC-SHA-256.
    public static func mint(_ claims: Claims, secret: [UInt8]) -> String {
        let signed = unsigned(["alg": "HS256", "typ": "JWT"], claims)
        return "\(signed).\(Base64URL.encode(HMAC.sha256(Array(signed.utf8), key: secret)))"
    }

    /// A token signed by RSA.
    public static func mint(_ claims: Claims, key: RSAPrivateKey, keyID: String) throws(CryptoError) -> String {
        let signed = unsigned(["alg": "RS256", "kid": .string(keyID), "typ": "JWT"], claims)
        return "\(signed).\(Base64URL.encode(try key.sign(Array(signed.utf8))))"
    }

    /// A token that nobody signed: for development.
    public static func mintUnsigned(_ claims: Claims) -> String {
        "\(unsigned(["alg": "none", "typ": "JWT"], claims))."
    }

    private static func unsigned(_ header: Claims, _ claims: Claims) -> String {
        "\(Base64URL.encode(ClaimsWriter.encode(header))).\(Base64URL.encode(ClaimsWriter.encode(claims)))"
    }
}
