internal import Crypto
internal import Runtime
internal import Tokens

/// A service account's key, as Google's console exports it. It obtains access tokens by an assertion that it signs (RFC 7523;
/// reference: upstream-facts, Authentication).
struct ServiceAccount: Sendable {
    let email: String
    let tokenURI: String
    private let keyID: String
    private let key: Secret<RSAPrivateKey>

    /// The scopes of a token that may read and write a Realtime Database.
    static let scopes =
        "https://www.googleapis.com/auth/firebase.database https://www.googleapis.com/auth/userinfo.email"
    /// The lifetime of an assertion in seconds, the longest that Google accepts.
    static let assertionSeconds: Int64 = 3_600

    init(_ bytes: [UInt8], file: String) throws(FollowError) {
        guard let claims = try? ClaimsReader.object(bytes) else {
            throw .invalidCredentials(file: file, "the file is not a JSON object")
        }
        guard claims["type"]?.string == "service_account" else {
            throw .invalidCredentials(file: file, "its \"type\" is not \"service_account\"")
        }
        func member(_ name: String) throws(FollowError) -> String {
            guard let text = claims[name]?.string, !text.isEmpty else {
                throw .invalidCredentials(file: file, "it has no \"\(name)\"")
            }
            return text
        }
        email = try member("client_email")
        tokenURI = try member("token_uri")
        keyID = claims["private_key_id"]?.string ?? ""
        do throws(CryptoError) {
            key = Secret(try RSAPrivateKey(pem: Array(try Self.privateKey(claims, file).utf8)))
        } catch {
            throw .invalidCredentials(file: file, "its \"private_key\" is not an RSA key in PEM form")
        }
    }

    private static func privateKey(_ claims: Claims, _ file: String) throws(CryptoError) -> String {
        claims["private_key"]?.string ?? ""
    }

    /// Returns the form that requests an access token.
    ///
    /// - Parameter now: seconds since 1970.
    func tokenRequest(now: Int64) throws(FollowError) -> [UInt8] {
        let claims: Claims = [
            "iss": .string(email), "scope": .string(Self.scopes), "aud": .string(tokenURI),
            "iat": .integer(now), "exp": .integer(now + Self.assertionSeconds),
        ]
        do {
            let assertion = try JWT.mint(claims, key: key.revealed(), keyID: keyID)
            return Array("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=\(assertion)".utf8)
        } catch {
            throw .noToken("the service account's key can't sign: \(error)")
        }
    }
}

/// An access token of a service account.
struct AccessToken: Sendable {
    let text: Secret<String>
    /// The time until which requests use the token: five minutes before it expires, or after three quarters of a short life.
    /// Milliseconds since 1970.
    let renewsAt: Int64

    /// Parses the token endpoint's answer (RFC 6749, section 5.1).
    init(_ body: [UInt8], now: Int64) throws(FollowError) {
        guard let claims = try? ClaimsReader.object(body), let text = claims["access_token"]?.string,
            !text.isEmpty, text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F })
        else { throw .noToken("its answer contains no access token") }
        self.text = Secret(text)
        var seconds: Int64 = 3_600
        switch claims["expires_in"] {
        case .integer(let value): seconds = value
        case .number(let value) where value.isFinite && abs(value) < 1e9: seconds = Int64(value)
        default: break
        }
        let life = min(max(seconds, 0), 1 << 30) * 1_000
        renewsAt = now + max(life - 300_000, life / 4 * 3)
    }
}
