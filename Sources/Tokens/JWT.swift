public import Crypto

/// A parsed JSON Web Token in compact form (RFC 7515, 7519). Its content is not trustworthy until a signature was
/// verified, and its times, issuer and audience were checked.
public struct JWT: Sendable {
    /// The signature algorithms that are supported.
    public enum Algorithm: String, Sendable, CaseIterable {
        case rs256 = "RS256"
        case hs256 = "HS256"
        /// The token is not signed.
        case none
    }

    /// The algorithm that the token declares for its signature.
    public let algorithm: Algorithm
    public let keyID: String?
    public let claims: Claims
    private let signedBytes: [UInt8]
    private let signature: [UInt8]

    public static let maxBytes = 16 * 1024

    /// Returns whether a credential has the form of a token, rather than that of a secret.
    public static func looksLikeToken(_ text: String) -> Bool {
        text.utf8.count { $0 == UInt8(ascii: ".") } == 2
    }

    /// - Throws: `malformed`, `tooLarge`, or `wrongAlgorithm` for an unsupported algorithm.
    public init(_ text: String) throws(JWTError) {
        let bytes = Array(text.utf8)
        guard bytes.count <= Self.maxBytes else { throw .tooLarge(bytes: bytes.count) }
        let parts = bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3, let header = Base64URL.decode(parts[0]), let payload = Base64URL.decode(parts[1]),
            let signature = Base64URL.decode(parts[2])
        else { throw .malformed("not three parts of base64url") }
        let fields = try ClaimsReader.object(header)
        guard let name = fields["alg"]?.string else { throw .malformed("the header names no algorithm") }
        guard let algorithm = Algorithm(rawValue: name) else { throw .wrongAlgorithm(Self.shown(name)) }
        // The header's critical extensions must be understood, but none is supported.
        guard fields["crit"] == nil else { throw .malformed("the header has critical extensions") }
        guard (algorithm == .none) == signature.isEmpty else {
            throw .malformed("the signature doesn't fit the algorithm")
        }
        switch fields["kid"] {
        case nil: keyID = nil
        case .string(let text)?: keyID = text
        default: throw .malformed("the key id is not a string")
        }
        self.algorithm = algorithm
        claims = try ClaimsReader.object(payload)
        signedBytes = Array(bytes[..<parts[1].endIndex])
        self.signature = signature
    }

    /// Throws unless the token declares RS256 and was signed with the matching private key.
    public func verify(with key: RSAPublicKey) throws(JWTError) {
        guard algorithm == .rs256 else { throw .wrongAlgorithm(algorithm.rawValue) }
        guard key.isValidSignature(signature, of: signedBytes) else { throw .badSignature }
    }

    /// Throws unless the token declares HS256 and was signed with this secret.
    public func verify(withSecret secret: [UInt8]) throws(JWTError) {
        guard algorithm == .hs256 else { throw .wrongAlgorithm(algorithm.rawValue) }
        guard Digest.isEqualInConstantTime(HMAC.sha256(signedBytes, key: secret), signature) else {
            throw .badSignature
        }
    }

    /// Returns the part of a token's text that is safe to display.
    private static func shown(_ name: String) -> String {
        String(name.unicodeScalars.prefix(16).filter { $0.isASCII && $0.value > 0x20 }.map(Character.init))
    }
}

extension JWT {
    /// Returns a token signed by HMAC-SHA-256.
    public static func mint(_ claims: Claims, secret: [UInt8]) -> String {
        let signed = unsigned(["alg": "HS256", "typ": "JWT"], claims)
        return "\(signed).\(Base64URL.encode(HMAC.sha256(Array(signed.utf8), key: secret)))"
    }

    /// Returns a token signed by RSA.
    public static func mint(_ claims: Claims, key: RSAPrivateKey, keyID: String) throws(CryptoError) -> String {
        let signed = unsigned(["alg": "RS256", "kid": .string(keyID), "typ": "JWT"], claims)
        return "\(signed).\(Base64URL.encode(try key.sign(Array(signed.utf8))))"
    }

    /// Returns an unsigned token, for development.
    public static func mintUnsigned(_ claims: Claims) -> String {
        "\(unsigned(["alg": "none", "typ": "JWT"], claims))."
    }

    private static func unsigned(_ header: Claims, _ claims: Claims) -> String {
        "\(Base64URL.encode(ClaimsWriter.encode(header))).\(Base64URL.encode(ClaimsWriter.encode(claims)))"
    }
}

/// The reason why a token is rejected. For logs and `token inspect`; contains no part of the token except its form.
public enum JWTError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The token does not consist of three parts of base64url with JSON in the first two, or its JSON is ambiguous.
    case malformed(String)
    case tooLarge(bytes: Int)
    /// The header names an algorithm that the key does not support.
    case wrongAlgorithm(String)
    case badSignature
    /// A claim is missing or has the wrong type.
    case badClaim(String)
    case expired(secondsAgo: Int64)
    /// `iat`, `nbf` or `auth_time` is in the future.
    case notYetValid(claim: String)
    case wrongIssuer
    case wrongAudience

    public var description: String {
        switch self {
        case .malformed(let reason): "The token is malformed: \(reason)."
        case .tooLarge(let bytes): "The token has \(bytes) bytes, which is too many."
        case .wrongAlgorithm(let name): "The token's algorithm is \(name), which does not match the key."
        case .badSignature: "The token is not signed with a known key."
        case .badClaim(let name): "The token's claim '\(name)' is missing or invalid."
        case .expired(let seconds): "The token expired \(seconds) s ago."
        case .notYetValid(let claim): "The token's claim '\(claim)' lies in the future."
        case .wrongIssuer: "The token is from another issuer."
        case .wrongAudience: "The token is for another audience."
        }
    }
}

/// The times in a token, checked against a clock. All in seconds since 1970.
public struct TokenTimes: Sendable, Equatable {
    public let issuedAt: Int64?
    public let expiresAt: Int64?

    /// - Parameters:
    ///   - skew: maximum difference between the issuer's clock and this one.
    ///   - requiresExpiry: whether a token without `exp` is rejected.
    ///   - lifeWithoutExpiry: the life of a token without `exp`, counted from `iat`, which such a token requires.
    /// - Throws: `badClaim`, `expired`, `notYetValid`.
    public init(
        _ claims: Claims, now: Int64, skew: Int64, requiresExpiry: Bool = false, lifeWithoutExpiry: Int64? = nil
    ) throws(JWTError) {
        let issuedAt = try Self.time("iat", claims)
        var expiresAt = try Self.time("exp", claims)
        if expiresAt == nil, requiresExpiry { throw .badClaim("exp") }
        if expiresAt == nil, let life = lifeWithoutExpiry {
            guard let issuedAt else { throw .badClaim("iat") }
            expiresAt = issuedAt + life
        }
        // Expiry is checked first, because it is the error that the token's owner can correct.
        if let expiresAt, expiresAt + skew <= now { throw .expired(secondsAgo: now - expiresAt) }
        for name in ["iat", "nbf", "auth_time"] {
            if let time = try Self.time(name, claims), time > now + skew { throw .notYetValid(claim: name) }
        }
        self.issuedAt = issuedAt
        self.expiresAt = expiresAt
    }

    private static func time(_ name: String, _ claims: Claims) throws(JWTError) -> Int64? {
        guard let value = claims[name] else { return nil }
        guard let seconds = value.seconds else { throw .badClaim(name) }
        return seconds
    }
}
