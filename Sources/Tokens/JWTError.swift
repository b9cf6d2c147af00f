/// Why a token is not believed. For logs and `token inspect`; holds nothing of the token but what its form shows.
public enum JWTError: Error, Equatable, Sendable, CustomStringConvertible {
    /// Not three parts of base64url with JSON in the first two, or JSON that can be read in more than one way.
    case malformed(String)
    case tooLarge(bytes: Int)
    /// The header names an algorithm that is not the key's.
    case wrongAlgorithm(String)
    case badSignature
    /// A claim that is missing or not of its type.
    case badClaim(String)
    case expired(secondsAgo: Int64)
    /// `iat`, `nbf` or `auth_time` lies ahead.
    case notYetValid(claim: String)
    case wrongIssuer
    case wrongAudience

    public var description: String {
        switch self {
        case .malformed(let reason): "The token is malformed: \(reason)."
        case .tooLarge(let bytes): "The token has \(bytes) bytes, which is too many."
        case .wrongAlgorithm(let name): "The token's algorithm is \(name), which the key is not for."
        case .badSignature: "The token's signature is not by a known key."
        case .badClaim(let name): "The token's claim '\(name)' is missing or not what it must be."
        case .expired(let seconds): "The token expired \(seconds) s ago."
        case .notYetValid(let claim): "The token's claim '\(claim)' lies in the future."
        case .wrongIssuer: "The token is by another issuer."
        case .wrongAudience: "The token is for another audience."
        }
    }
}
