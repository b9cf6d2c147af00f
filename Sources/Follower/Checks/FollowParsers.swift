import Runtime

/// The parsers of what comes from an upstream or from an operator's files, for programs that test them.
package enum FollowParsers {
    /// The e-mail address and the token endpoint of a service account's file; the reason why it is none.
    package static func serviceAccount(_ bytes: [UInt8]) -> Result<(email: String, tokenURI: String), FollowError> {
        do throws(FollowError) {
            let account = try ServiceAccount(bytes, file: "account.json")
            return .success((account.email, account.tokenURI))
        } catch {
            return .failure(error)
        }
    }

    /// The form by which a service account's file asks for a token.
    package static func tokenRequest(_ bytes: [UInt8], now: Int64) -> [UInt8]? {
        try? ServiceAccount(bytes, file: "account.json").tokenRequest(now: now)
    }

    /// The token in an endpoint's answer, and the time in milliseconds at which it is renewed.
    package static func accessToken(_ body: [UInt8], now: Int64) -> (text: String, renewsAt: Int64)? {
        guard let token = try? AccessToken(body, now: now) else { return nil }
        return (token.text.revealed(), token.renewsAt)
    }

    /// The stored form of a plan that was read from a stored form.
    package static func plan(_ text: String) -> String? { FollowPlan(stored: text)?.stored }
}
