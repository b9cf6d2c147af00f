import Wire

/// The credential that a REST request shows (reference: rtdb-protocol 10.1).
enum ShownCredential {
    /// `auth`, else `access_token`, else the header's; nil for none. An empty one is none: clients append `?auth=` and send
    /// `Bearer` without having anything to put behind it, and mean that they are nobody.
    static func find(_ parameters: RESTParameters, authorization: String?) -> String? {
        for text in [parameters.auth, parameters.accessToken] {
            if let text, !text.isEmpty { return text }
        }
        guard let parts = authorization?.split(separator: " ", maxSplits: 1), parts.count == 2,
            parts[0].lowercased() == "bearer"
        else { return nil }
        let token = parts[1].drop { $0 == " " }
        return token.isEmpty ? nil : String(token)
    }
}
