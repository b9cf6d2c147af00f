public import Crypto

/// A JSON Web Token in compact form, taken apart (RFC 7515, 7519). Nothing in it may be believed until a signature was
/// verified; and then its times, issuer and audience remain to be checked.
public struct JWT: Sendable {
    /// Ways to sign that tokens may use here.
    public enum Algorithm: String, Sendable, CaseIterable {
        case rs256 = "RS256"
        case hs256 = "HS256"
        /// Not signed at all.
        case none
    }

    /// What the token says about its signature.
    public let algorithm: Algorithm
    public let keyID: String?
    public let claims: Claims
    private let signedBytes: [UInt8]
    private let signature: [UInt8]

    public static let maxBytes = 16 * 1024

    /// Whether a credential has the form of a token, rather than that of a secret.
    public static func looksLikeToken(_ text: String) -> Bool {
        text.utf8.count { $0 == UInt8(ascii: ".") } == 2
    }

    /// - Throws: `malformed`, `tooLarge`, `wrongAlgorithm` for any algorithm not known here.
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
        // Extensions that must be understood; none is.
        guard fields["crit"] == nil else { throw .malformed("the header has critical extensions") }
        guard (algorithm == .none) == signature.isEmpty else {
            throw .malformed("the signature doesn't fit the algorithm")
        }
        switch fields["kid"] {
        case nil: keyID = nil
        case .string(let text)?: keyID = text
        default: throw .malformed("the key's name is no text")
        }
        self.algorithm = algorithm
        claims = try ClaimsReader.object(payload)
        signedBytes = Array(bytes[..<parts[1].endIndex])
        self.signature = signature
    }

    /// Throws unless the token says RS256 and was signed with this key's other half.
    public func verify(with key: RSAPublicKey) throws(JWTError) {
        guard algorithm == .rs256 else { throw .wrongAlgorithm(algorithm.rawValue) }
        guard key.isValidSignature(signature, of: signedBytes) else { throw .badSignature }
    }

    /// Throws unless the token says HS256 and was signed with this secret.
    public func verify(withSecret secret: [UInt8]) throws(JWTError) {
        guard algorithm == .hs256 else { throw .wrongAlgorithm(algorithm.rawValue) }
        guard Digest.isEqualInConstantTime(HMAC.sha256(signedBytes, key: secret), signature) else {
            throw .badSignature
        }
    }

    /// A name from a token, fit to be shown.
    private static func shown(_ name: String) -> String {
        String(name.unicodeScalars.prefix(16).filter { $0.isASCII && $0.value > 0x20 }.map(Character.init))
    }
}
