import HTTPClient
import Rules
import Runtime
import Testing
import Tokens
import Tree

@testable import Gateway

/// Tests of the credentials that the authenticator accepts and of those that it refuses.
struct AccessAuthenticatorTests {
    static let administrator = "an administrator's secret 0123456789 abc"
    static let database = "a database's secret 0123456789 abcdefghi"
    static let issuer = "https://securetoken.google.com/project"
    /// The time of these tests, in seconds since 1970.
    static let now: Int64 = 1_800_000_000

    static func secret(_ text: String) -> Secret<[UInt8]> { Secret(Array(text.utf8)) }

    struct Setting {
        let authenticator: Authenticator
        let server = FakeKeyServer()

        init(_ change: (inout Gateway.Credentials) -> Void = { _ in }) throws {
            var credentials = Gateway.Credentials()
            credentials.administratorSecrets = [AccessAuthenticatorTests.secret(AccessAuthenticatorTests.administrator)]
            credentials.databaseSecrets = ["db": [AccessAuthenticatorTests.secret(AccessAuthenticatorTests.database)]]
            let client = try HTTPClient()
            client.stop()
            credentials.idTokens = IDTokenSettings(
                issuer: AccessAuthenticatorTests.issuer, audience: "project", keySetURL: "https://unused.invalid/",
                client: client)
            change(&credentials)
            server.serve(["k1": try TestSigner.first.get().certificatePEM])
            authenticator = Authenticator(credentials, keySet: server.makeKeySet())
        }

        /// Returns the result of authentication. Waits for it if the authenticator answers later.
        func ask(
            _ credential: String?, namespace: String = "db", isLoopback: Bool = false,
            override: Authenticator.Override = .none, isForFeed: Bool = false, now: Int64 = AccessAuthenticatorTests.now
        ) -> Result<Identity, AuthFailure> {
            let question = Authenticator.Credentials(
                credential: credential, namespace: namespace, isLoopback: isLoopback, override: override,
                isForFeed: isForFeed)
            switch authenticator.authenticate(question, now: now * 1_000) {
            case .now(let result): return result
            case .later(let whenKnown):
                let result = Condition<Result<Identity, AuthFailure>?>(nil)
                whenKnown { known in result.broadcast { $0 = known } }
                return result.wait(milliseconds: 30_000) { $0 } ?? .failure(.unavailable)
            }
        }

        func isUnparsable(_ credential: String, namespace: String = "db", isLoopback: Bool = false) -> Bool {
            if case .failure(.unparsable) = ask(credential, namespace: namespace, isLoopback: isLoopback) {
                true
            } else {
                false
            }
        }
    }

    static func idClaims(_ change: (inout Claims) -> Void = { _ in }) -> Claims {
        var claims: Claims = [
            "iss": .string(issuer), "aud": "project", "sub": "ada", "user_id": "ada", "iat": .integer(now - 100),
            "auth_time": .integer(now - 200), "exp": .integer(now + 3_500), "role": "editor",
            "firebase": ["sign_in_provider": "password", "identities": ["google.com": ["1", "2"]]],
        ]
        change(&claims)
        return claims
    }

    static func idToken(_ claims: Claims = idClaims(), keyID: String = "k1") throws -> String {
        try JWT.mint(claims, key: try TestSigner.first.get().key, keyID: keyID)
    }

    // MARK: Without tokens

    @Test func `a caller without credential is anonymous`() throws {
        let identity = try Setting().ask(nil).get()
        #expect(identity.context.auth.isNull)
        #expect(!identity.context.isAdmin)
        #expect(!identity.mayAdminister)
        #expect(identity.name == nil)
    }

    @Test func `each secret in its scope`() throws {
        let setting = try Setting()
        for namespace in ["db", "other"] {
            let identity = try setting.ask(Self.administrator, namespace: namespace).get()
            #expect(identity.context.isAdmin)
            #expect(identity.mayOperate)
        }
        let identity = try setting.ask(Self.database).get()
        #expect(identity.context.isAdmin)
        #expect(identity.mayAdminister)
        #expect(!identity.mayOperate)
        #expect(setting.isUnparsable(Self.database, namespace: "other"))
        for text in [
            "", " ", "owner", Self.database + " ", String(Self.database.dropLast()), Self.database.uppercased(),
            "x.y.z", "..", ".",
        ] {
            #expect(setting.isUnparsable(text, isLoopback: true))
        }
    }

    @Test func `the owner is one on this machine, where that is wanted`() throws {
        let setting = try Setting { $0.acceptsOwner = true }
        #expect(try setting.ask("owner", isLoopback: true).get().mayOperate)
        #expect(setting.isUnparsable("owner", isLoopback: false))
    }

    @Test func `nothing is accepted where nothing is set`() throws {
        let authenticator = Authenticator(Gateway.Credentials())
        let unsigned = JWT.mintUnsigned(Self.idClaims())
        for credential in [
            "owner", "", Self.administrator, unsigned, try Self.idToken(), JWT.mint(["v": 0], secret: []),
        ] {
            let question = Authenticator.Credentials(credential: credential, namespace: "db", isLoopback: true)
            guard case .now(.failure(.unparsable)) = authenticator.authenticate(question) else {
                Issue.record("\(credential) was accepted")
                continue
            }
        }
    }

    // MARK: ID tokens

    @Test func `an ID token and its claims`() throws {
        let setting = try Setting()
        for _ in 0..<3 {
            let identity = try setting.ask(try Self.idToken()).get()
            let auth = identity.context.auth
            #expect(auth.child(Key("uid")) == .string("ada"))
            #expect(auth.child(Key("provider")) == .string("password"))
            let token = auth.child(Key("token"))
            #expect(token.child(Key("role")) == .string("editor"))
            #expect(token.child(Key("exp")) == .int(Self.now + 3_500))
            let identities = token.child(Key("firebase")).child(Key("identities"))
            #expect(identities.child(Key("google.com")).child(Key("1")) == .string("2"))
            #expect(!identity.context.isAdmin)
            #expect(!identity.mayAdminister)
            #expect(identity.uid == "ada")
            #expect(identity.name == "uid:ada")
            #expect(identity.expiresAt == (Self.now + 3_530) * 1_000)
        }
        #expect(setting.server.fetches == 1)
    }

    @Test func `a claim makes no user an administrator`() throws {
        let token = try Self.idToken(
            Self.idClaims {
                $0["admin"] = true
                $0["v"] = 0
                $0["d"] = ["uid": "x"]
            })
        let identity = try Setting().ask(token).get()
        #expect(!identity.context.isAdmin)
        #expect(identity.uid == "ada")
    }

    @Test(
        arguments: [
            ("iss", "https://securetoken.google.com/other"), ("iss", nil), ("iss", ""),
            ("iss", ["https://securetoken.google.com/project"]),
            ("aud", "other"), ("aud", nil), ("aud", .array([])), ("aud", ["other"]), ("aud", ["project": true]),
            ("sub", nil), ("sub", ""), ("sub", 7), ("sub", .string(String(repeating: "a", count: 257))),
            ("exp", nil), ("exp", "never"), ("iat", nil), ("iat", .integer(now + 31)),
            ("auth_time", .integer(now + 31)),
            ("nbf", .integer(now + 31)),
        ] as [(String, ClaimValue?)])
    func `a token that is not for here`(claim: String, value: ClaimValue?) throws {
        let setting = try Setting()
        #expect(setting.isUnparsable(try Self.idToken(Self.idClaims { $0[claim] = value })))
        // The gateway refuses the token without verifying it, so an invalid token cannot make the gateway fetch keys.
        #expect(setting.server.fetches == 0)
    }

    @Test func `an audience among others`() throws {
        _ = try Setting().ask(try Self.idToken(Self.idClaims { $0["aud"] = ["x", "project"] })).get()
    }

    @Test func `an expired token, also from memory`() throws {
        let setting = try Setting()
        let token = try Self.idToken()
        _ = try setting.ask(token).get()
        _ = try setting.ask(token, now: Self.now + 3_529).get()
        for later in [3_530, 100_000] as [Int64] {
            guard case .failure(.expired) = setting.ask(token, now: Self.now + later) else {
                Issue.record("it was accepted after \(later) s")
                continue
            }
        }
    }

    @Test func `forged tokens`() throws {
        let setting = try Setting()
        _ = try setting.ask(try Self.idToken()).get()
        // A token signed by another key under the expected key ID.
        let other = try TestSigner.second.get()
        #expect(setting.isUnparsable(try JWT.mint(Self.idClaims(), key: other.key, keyID: "k1")))
        // Tokens signed with the public key as an HMAC secret, in every form in which the key is published.
        let pem = try TestSigner.first.get().certificatePEM
        for secret in [pem, String(pem.dropLast()), "", "k1"] {
            #expect(setting.isUnparsable(JWT.mint(Self.idClaims(), secret: Array(secret.utf8))))
        }
        #expect(setting.isUnparsable(JWT.mintUnsigned(Self.idClaims()), isLoopback: true))
        // A valid signature under other claims.
        let good = try Self.idToken().split(separator: ".")
        let eve = try Self.idToken(Self.idClaims { $0["sub"] = "eve" }).split(separator: ".")
        #expect(setting.isUnparsable("\(good[0]).\(eve[1]).\(good[2])"))
        #expect(setting.isUnparsable("\(good[0]).\(good[1])."))
    }

    @Test func `a key that the issuer doesn't have`() throws {
        let setting = try Setting()
        #expect(setting.isUnparsable(try Self.idToken(keyID: "k2")))
        #expect(setting.isUnparsable(try Self.idToken(keyID: "")))
        // An immediate second attempt does not fetch again.
        for index in 0..<50 { #expect(setting.isUnparsable(try Self.idToken(keyID: "made up \(index)"))) }
        #expect(setting.server.fetches == 1)
    }

    @Test func `a key server that is down is not the token's fault`() throws {
        let setting = try Setting()
        setting.server.fail()
        guard case .failure(.unavailable) = setting.ask(try Self.idToken()) else {
            Issue.record("it was judged")
            return
        }
    }

    // MARK: Custom tokens

    static func custom(_ change: (inout Claims) -> Void = { _ in }, secret: String = database) -> String {
        var claims: Claims = ["v": 0, "iat": .integer(now - 10), "d": ["uid": "bob", "team": ["red", "blue"]]]
        change(&claims)
        return JWT.mint(claims, secret: Array(secret.utf8))
    }

    @Test func `a custom token's data is what rules see`() throws {
        let setting = try Setting()
        let identity = try setting.ask(Self.custom()).get()
        #expect(identity.context.auth == Node(["uid": "bob", "team": ["red", "blue"]] as Claims))
        #expect(identity.expiresAt == (Self.now - 10 + 86_400 + 30) * 1_000)
        #expect(!identity.context.isAdmin)
        #expect(setting.isUnparsable(Self.custom(), namespace: "other"))
        #expect(try setting.ask(Self.custom(secret: Self.administrator), namespace: "other").get().uid == "bob")
        guard case .failure(.expired) = setting.ask(Self.custom(), now: Self.now + 86_421) else {
            Issue.record("it was accepted after a day")
            return
        }
    }

    @Test func `an administrator's token has its secret's power, or less`() throws {
        let setting = try Setting()
        let admin = { (secret: String) in
            Self.custom(
                {
                    $0["admin"] = true
                    $0["d"] = nil
                }, secret: secret)
        }
        #expect(try setting.ask(admin(Self.administrator), namespace: "x").get().mayOperate)
        let identity = try setting.ask(admin(Self.database)).get()
        #expect(identity.context.isAdmin)
        #expect(identity.mayAdminister)
        #expect(!identity.mayOperate)
        let data = try setting.ask(
            Self.custom(
                {
                    $0["admin"] = true
                    $0["scope"] = "data"
                }, secret: Self.administrator)
        ).get()
        #expect(data.context.isAdmin)
        #expect(!data.mayAdminister)
        #expect(!data.mayOperate)
    }

    @Test(
        arguments: [
            ("v", nil), ("v", 1), ("v", "0"), ("v", .number(0.5)), ("d", nil), ("d", "bob"), ("d", .object(Claims())),
            ("d", ["uid": 7]), ("d", ["uid": ""]), ("iat", nil), ("iat", .integer(now + 31)),
            ("nbf", .integer(now + 31)),
            ("exp", "x"), ("d", ["uid": "bob", "more": .string(String(repeating: "a", count: 1_024))]),
        ] as [(String, ClaimValue?)])
    func `custom tokens that are none`(claim: String, value: ClaimValue?) throws {
        #expect(try Setting().isUnparsable(Self.custom { $0[claim] = value }))
    }

    @Test func `admin is true or nothing`() throws {
        for value in ["true", 1, false, .null] as [ClaimValue] {
            #expect(try !Setting().ask(Self.custom { $0["admin"] = value }).get().context.isAdmin)
        }
    }

    // MARK: Rotation

    @Test func `several secrets hold at once, and what rests on one ends with it`() throws {
        let setting = try Setting()
        let new = Self.secret("the next secret of the database, 40 chars")
        let store = setting.authenticator.secrets
        let generation = store.generation
        let bySecret = try setting.ask(Self.database).get()
        let byToken = try setting.ask(Self.custom()).get()
        let byID = try setting.ask(try Self.idToken()).get()
        let admin = try setting.ask(Self.administrator).get()
        store.replace(
            administrators: [Self.secret(Self.administrator)], databases: ["db": [Self.secret(Self.database), new]])
        #expect(store.generation != generation)
        #expect(try setting.ask(String(decoding: new.revealed(), as: UTF8.self)).get().mayAdminister)
        let now = Self.now * 1_000
        for identity in [bySecret, byToken, byID, admin] { #expect(setting.authenticator.isValid(identity, now: now)) }
        store.replace(administrators: [], databases: ["db": [new]])
        #expect(!setting.authenticator.isValid(bySecret, now: now))
        #expect(!setting.authenticator.isValid(byToken, now: now))
        #expect(!setting.authenticator.isValid(admin, now: now))
        #expect(setting.authenticator.isValid(byID, now: now))
        #expect(setting.isUnparsable(Self.database))
        #expect(setting.isUnparsable(Self.custom()))
        #expect(!setting.authenticator.isValid(byID, now: (Self.now + 3_530) * 1_000))
    }

    // MARK: Development

    @Test func `unsigned tokens, where they are wanted and from this machine`() throws {
        let setting = try Setting { $0.acceptsUnsignedTokens = true }
        // The JavaScript SDK's mock tokens expired long ago (reference: rtdb-protocol 10.2).
        let token = JWT.mintUnsigned([
            "iat": 0, "exp": 3_600, "sub": "mock", "iss": "https://securetoken.google.com/demo",
        ])
        let identity = try setting.ask(token, isLoopback: true).get()
        #expect(identity.uid == "mock")
        #expect(identity.expiresAt == nil)
        #expect(!identity.context.isAdmin)
        #expect(setting.isUnparsable(token, isLoopback: false))
        #expect(setting.isUnparsable(JWT.mintUnsigned(["iat": 0]), isLoopback: true))
        // The signature of a signed token is still checked.
        #expect(
            setting.isUnparsable(
                try JWT.mint(Self.idClaims(), key: try TestSigner.second.get().key, keyID: "k1"), isLoopback: true))
    }

    // MARK: Acting as another user

    @Test func `administrators may act as others, and only they`() throws {
        let setting = try Setting()
        let override = try Authenticator.Override(json: Array(#"{"uid":"eve","token":{"google.com":[1]}}"#.utf8))
        let identity = try setting.ask(Self.database, override: override).get()
        #expect(identity.uid == "eve")
        #expect(identity.isOverride)
        #expect(!identity.context.isAdmin)
        #expect(!identity.mayAdminister)
        #expect(try setting.ask(Self.database, override: .auth(.null)).get().context.auth.isNull)
        for credential in [nil, Self.custom(), try Self.idToken()] as [String?] {
            guard case .failure(.overrideRefused) = setting.ask(credential, override: override) else {
                Issue.record("somebody else could")
                continue
            }
        }
        for text in ["", "1", "[]", "\"a\"", "{", #"{"a":1,"a":2}"#] {
            #expect(throws: AuthFailure.badOverride) { try Authenticator.Override(json: Array(text.utf8)) }
        }
    }

    @Test func `the log names the caller, without secrets`() throws {
        let setting = try Setting()
        let text = { (identity: Identity) in
            String(decoding: identity.origin(via: .rest, address: "192.0.2.1").json, as: UTF8.self)
        }
        #expect(text(try setting.ask(nil).get()) == #"{"uid":null,"admin":false,"via":"rest","ip":"192.0.2.1"}"#)
        #expect(
            text(try setting.ask(Self.custom()).get()) == #"{"uid":"bob","admin":false,"via":"rest","ip":"192.0.2.1"}"#)
        #expect(
            text(try setting.ask(Self.database).get()) == #"{"uid":null,"admin":true,"via":"rest","ip":"192.0.2.1"}"#)
        let override = try Authenticator.Override(json: Array(#"{"uid":"eve"}"#.utf8))
        #expect(
            text(try setting.ask(Self.database, override: override).get())
                == #"{"uid":"eve","admin":false,"override":true,"via":"rest","ip":"192.0.2.1"}"#)
        for identity in [try setting.ask(Self.database).get(), try setting.ask(Self.custom()).get()] {
            #expect(!"\(identity)".contains(Self.database))
        }
    }

    /// Checks that modified tokens and random texts are refused without a crash.
    @Test func `random credentials`() throws {
        let setting = try Setting {
            $0.acceptsUnsignedTokens = true
            $0.acceptsOwner = true
        }
        var generator = SystemRandomNumberGenerator()
        let originals = [try Self.idToken(), Self.custom(), Self.database]
        for original in originals { _ = try setting.ask(original, isLoopback: true).get() }
        for _ in 0..<3_000 {
            var bytes = Array(originals[Int.random(in: 0..<3, using: &generator)].utf8)
            for _ in 0..<Int.random(in: 1...3, using: &generator) {
                let index = Int.random(in: 0..<bytes.count, using: &generator)
                switch Int.random(in: 0..<3, using: &generator) {
                case 0: bytes[index] = UInt8.random(in: 0...255, using: &generator)
                case 1: bytes.remove(at: index)
                default: bytes.insert(UInt8.random(in: 0...127, using: &generator), at: index)
                }
            }
            let text = String(decoding: bytes, as: UTF8.self)
            if originals.contains(text) { continue }
            if case .success = setting.ask(text, isLoopback: true) { Issue.record("accepted: \(text)") }
        }
    }
}
