/// The reason why an upstream can't be followed. Texts contain no secret.
public enum FollowError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The upstream's URL is invalid, for this reason.
    case invalidUpstream(String)
    /// A file of credentials can't be used, for this reason.
    case invalidCredentials(file: String, String)
    /// The token endpoint did not issue a token.
    case noToken(String)
    /// The upstream refused a REST request.
    case refused(status: Int, request: String, String)
    /// The upstream refused a listen at a part.
    case listenRefused(part: String, String)
    /// The upstream refused the credential.
    case credentialRefused(String)
    /// The upstream could not be reached.
    case unreachable(String)
    /// The upstream answered a REST request with something else than expected.
    case unexpected(String)
    /// The upstream's rules can't be evaluated here.
    case unsupportedRules(String)

    public var description: String {
        switch self {
        case .invalidUpstream(let reason): "The upstream's URL can't be used: \(reason)."
        case .invalidCredentials(let file, let reason):
            "The credentials in \(file) can't be used: \(Self.clause(reason))."
        case .noToken(let reason): "The token endpoint issued no access token: \(reason)"
        case .listenRefused(let part, let reason):
            "The upstream refused a listen at \(part) (\(reason)). Grant the account roles/firebasedatabase.viewer, or name a smaller part."
        case .credentialRefused(let reason):
            "The upstream refused the credential (\(reason)). Check that the file belongs to this project."
        case .refused(let status, let request, let reason):
            "The upstream refused to answer \(request) (status \(status)): \(reason)"
        case .unreachable(let reason): "The upstream can't be reached: \(Self.clause(reason))."
        case .unexpected(let reason): "The upstream sent an unexpected answer: \(reason)."
        case .unsupportedRules(let reason):
            "The upstream's rules can't be evaluated here: \(reason). Use --keep-rules and set rules of your own."
        }
    }

    /// Returns a reason without a period at its end.
    private static func clause(_ reason: String) -> Substring {
        reason.hasSuffix(".") ? reason.dropLast() : reason[...]
    }
}
