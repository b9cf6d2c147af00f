import Crypto
import LogStore
import Rules
import Runtime
import Testing
import Tokens
import Tree

@testable import Gateway

/// Tests of the access tokens of service accounts.
@Suite struct AccessServiceAccountTests {
    private static let now: Int64 = 1_800_000_000_000
    private static let uri = "https://db.example/.oauth2/token"
    private static let tokenKey: Secret<[UInt8]> = Secret(Array(repeating: 7, count: 32))

    /// An account with one key, for which the test can sign.
    private struct Account {
        let grant: ServiceAccountGrant
        let keyID: String
        let key: RSAPrivateKey
        var endsAt: Int64?

        init(_ name: String, _ role: ServiceAccountGrant.Role = .admin, of namespaces: [String]? = nil) throws {
            grant = ServiceAccountGrant(name: name, role: role, namespaces: namespaces)
            keyID = "key-of-\(name)"
            key = try RSAPrivateKey.generate()
        }

        func record() throws -> ServiceAccountRecord {
            ServiceAccountRecord(
                uid: grant.name, grant: grant, tokenURI: AccessServiceAccountTests.uri, createdAt: 0,
                keys: [.init(id: keyID, publicKey: try key.publicKeyDER(), createdAt: 0, endsAt: endsAt)])
        }

        func assertion(_ change: (inout Claims) -> Void = { _ in }, keyID: String? = nil) throws -> String {
            let seconds = AccessServiceAccountTests.now / 1_000
            var claims: Claims = [
                "iss": .string(ServiceAccountRecord.email(of: grant.name)),
                "aud": .string(AccessServiceAccountTests.uri), "iat": .integer(seconds),
                "exp": .integer(seconds + 3_600),
            ]
            change(&claims)
            return try JWT.mint(claims, key: key, keyID: keyID ?? self.keyID)
        }
    }

    private static func keys(_ accounts: Account...) throws -> ServiceAccountKeys {
        ServiceAccountKeys(ServiceAccounts(tokenKey: tokenKey, records: try accounts.map { try $0.record() }))
    }

    private static func ask(
        _ authenticator: Authenticator, _ credential: String, _ namespace: String = "shop",
        override: Authenticator.Override = .none, at time: Int64 = now
    ) -> Result<Identity, AuthFailure> {
        let question = Authenticator.Credentials(
            credential: credential, namespace: namespace, isLoopback: false, override: override)
        guard case .now(let result) = authenticator.authenticate(question, now: time) else {
            return .failure(.unavailable)
        }
        return result
    }

    private static func isRefused(_ result: Result<Identity, AuthFailure>) -> Bool {
        if case .failure(.unparsable) = result { true } else { false }
    }

    @Test func roles() throws {
        let (admin, viewer) = (try Account("server"), try Account("reports", .viewer))
        let shop = try Account("shop", of: ["shop"])
        let keys = try Self.keys(admin, viewer, shop)
        let authenticator = Authenticator(GatewayCredentials())
        authenticator.secrets.replace(serviceAccounts: keys)
        func token(_ account: Account) throws -> String {
            try keys.issue(for: try account.assertion(), now: Self.now, skew: 30).text
        }
        let administrator = try Self.ask(authenticator, try token(admin)).get()
        #expect(administrator.mayOperate && administrator.context.isAdmin && administrator.context.isElsewhere)
        #expect(administrator.expiresAt == Self.now + 3_630_000)
        let reader = try Self.ask(authenticator, try token(viewer)).get()
        #expect(reader.context.isViewer && reader.context.isElsewhere && !reader.isAnonymous)
        #expect(reader.mayReadRules && reader.mayReadLog && !reader.mayAdminister && !reader.mayOperate)
        #expect(reader.access(toFeed: "x", in: "shop") == nil && reader.name == "viewer:reports")
        #expect(throws: AuthFailure.overrideRefused) {
            try Self.ask(authenticator, try token(viewer), override: .auth(.null)).get()
        }
        let limited = try Self.ask(authenticator, try token(shop)).get()
        #expect(limited.mayAdminister && !limited.mayOperate && limited.context.isAdmin)
        #expect(Self.isRefused(Self.ask(authenticator, try token(shop), "blog")))
        #expect(try Self.ask(authenticator, try token(admin), override: .auth(.null)).get().isOverride)
    }

    @Test func removalEndsIdentities() throws {
        let account = try Account("server")
        let keys = try Self.keys(account)
        let authenticator = Authenticator(GatewayCredentials())
        #expect(throws: AuthFailure.unavailable) {
            try Self.ask(authenticator, try keys.issue(for: try account.assertion(), now: Self.now, skew: 30).text)
                .get()
        }
        authenticator.secrets.replace(serviceAccounts: keys)
        let token = try keys.issue(for: try account.assertion(), now: Self.now, skew: 30).text
        let identity = try Self.ask(authenticator, token).get()
        #expect(authenticator.isValid(identity, now: Self.now))
        let generation = authenticator.secrets.generation
        // The key of another role is not the same key.
        var changed = try Account("server", .viewer)
        authenticator.secrets.replace(
            serviceAccounts: ServiceAccountKeys(
                ServiceAccounts(tokenKey: Self.tokenKey, records: [try changed.record()])))
        #expect(!authenticator.isValid(identity, now: Self.now) && authenticator.secrets.generation > generation)
        changed.endsAt = Self.now
        authenticator.secrets.replace(serviceAccounts: try Self.keys(changed))
        #expect(Self.isRefused(Self.ask(authenticator, token)))
        authenticator.secrets.replace(serviceAccounts: try Self.keys())
        #expect(Self.isRefused(Self.ask(authenticator, token)))
        // Other secrets stay.
        authenticator.secrets.replace(administrators: [Secret(Array("0123456789abcdef".utf8))], databases: [:])
        #expect(authenticator.secrets.serviceAccounts != nil)
        authenticator.secrets.replace(serviceAccounts: keys)
        #expect(authenticator.secrets.administrators.count == 1)
    }

    @Test func tokensEndWithTheirKey() throws {
        var account = try Account("server")
        account.endsAt = Self.now + 60_000
        let keys = try Self.keys(account)
        let issued = try keys.issue(for: try account.assertion(), now: Self.now, skew: 30)
        #expect(issued.lifeSeconds == 60)
        let identity = try keys.identity(of: try JWT(issued.text), namespace: "x", now: Self.now, skew: 30)
        #expect(identity.expiresAt == Self.now + 60_000)
        #expect(throws: ServiceAccountKeys.Refusal.self) {
            try keys.issue(for: try account.assertion(), now: Self.now + 60_000, skew: 30)
        }
    }

    @Test func refusalsTellStrangersNothing() throws {
        let (account, other) = (try Account("server"), try Account("other"))
        let keys = try Self.keys(account, other)
        for text in [
            "", "x.y.z", try account.assertion(keyID: "unknown"), try account.assertion(keyID: other.keyID),
            JWT.mint(["iss": "server"], secret: [1]),
        ] {
            do throws(ServiceAccountKeys.Refusal) {
                _ = try keys.issue(for: text, now: Self.now, skew: 30)
                Issue.record("\(text) was accepted")
            } catch {
                if case .invalid = error { Issue.record("\(text): the refusal names an account") }
            }
        }
        #expect(throws: ServiceAccountKeys.Refusal.invalid(account: "server", .wrongAudience)) {
            try keys.issue(for: try account.assertion { $0["aud"] = "x" }, now: Self.now, skew: 30)
        }
        let stranger = ServiceToken(keyID: account.keyID, issuedAt: Self.now / 1_000, expiresAt: Self.now / 1_000 + 60)
        #expect(throws: AuthFailure.self) {
            try keys.identity(of: try JWT(stranger.text(signedWith: [1])), namespace: "x", now: Self.now, skew: 30)
        }
    }

    @Test func noticesAboutGoogleAreRare() {
        var notices = GoogleTokenNotices()
        // The clock is set back before the last one.
        let due = [1_000, 60_999, 61_000, 5].map { notices.isDue(now: $0) }
        #expect(due == [true, false, true, true])
        #expect(Self.isRefused(Self.ask(Authenticator(GatewayCredentials()), "ya29.x.y")))
    }
}
