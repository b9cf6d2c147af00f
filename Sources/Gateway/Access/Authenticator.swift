import Crypto
import HTTPServer
import Runtime
import Rules
import Tree
import Wire

/// Finds out who asks from a request's credentials.
struct Authenticator: Sendable {
    /// Whether `owner` is an administrator, for peers on this machine: `pathmirror dev` only.
    let acceptsOwner: Bool
    let secrets: [Secret<[UInt8]>]

    /// - Throws: 401 when a credential was given and means nothing.
    func identity(of request: HTTPRequest, _ parameters: RESTParameters) throws(RESTError) -> AuthContext {
        guard let credential = credential(of: request, parameters) else { return .unauthenticated }
        if acceptsOwner, request.isLoopbackPeer, credential == "owner" { return try override(parameters) }
        let bytes = Array(credential.utf8)
        var isKnown = false
        // All are compared, so that the time taken tells nothing.
        for secret in secrets where Digest.isEqualInConstantTime(Digest.sha256(bytes), Digest.sha256(secret.revealed())) {
            isKnown = true
        }
        guard isKnown else { throw .unparsableToken }
        return try override(parameters)
    }

    /// An administrator may act as somebody else (reference: rtdb-protocol 7.2).
    private func override(_ parameters: RESTParameters) throws(RESTError) -> AuthContext {
        guard let text = parameters.authOverride else { return .admin }
        guard let parsed = try? JSONParser.parse(text), parsed.node.isNull || parsed.node.isBranch else {
            throw RESTError(400, "auth_variable_override must be a JSON object or null")
        }
        return AuthContext(auth: parsed.node)
    }

    private func credential(of request: HTTPRequest, _ parameters: RESTParameters) -> String? {
        if let auth = parameters.auth ?? parameters.accessToken { return auth }
        guard let header = request.headerText("authorization") else { return nil }
        let parts = header.split(separator: " ", maxSplits: 1)
        guard parts.count == 2, parts[0].lowercased() == "bearer" else { return nil }
        return String(parts[1])
    }
}
