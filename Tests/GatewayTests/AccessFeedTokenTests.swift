import Feeds
import Rules
import Runtime
import Testing
import Tokens
import Tree

@testable import Gateway

/// Checks that a feed's token grants access to its feed only.
struct AccessFeedTokenTests {
    private typealias Base = AccessAuthenticatorTests

    private func token(
        _ feed: ClaimValue = "orders", ns: ClaimValue? = "db", secret: String = Base.database,
        _ change: (inout Claims) -> Void = { _ in }
    ) -> String {
        var claims: Claims = ["v": 0, "iat": .integer(Base.now - 10), "exp": .integer(Base.now + 100), "feed": feed]
        claims["ns"] = ns
        change(&claims)
        return JWT.mint(claims, secret: Array(secret.utf8))
    }

    @Test func `it may consume its feed`() throws {
        for secret in [Base.database, Base.administrator] {
            let identity = try Base.Setting().ask(token(secret: secret), isForFeed: true).get()
            #expect(identity.access(toFeed: "orders", in: "db") != nil)
            #expect(identity.access(toFeed: "orders2", in: "db") == nil)
            #expect(identity.access(toFeed: "Orders", in: "db") == nil)
            #expect(identity.access(toFeed: "orders", in: "other") == nil)
            #expect(identity.access(toFeed: "", in: "") == nil)
            #expect(identity.name == "feed:orders")
        }
    }

    /// Checks that a later feed of the same name is a different feed: a token with an id admits only that feed, and a
    /// token without an id admits only feeds that are as old as the token.
    @Test func `it is for one feed of the name`() throws {
        let (id, other) = ("0191abcd-0000-4000-8000-000000000000", "0191abcd-0000-4000-8000-000000000001")
        let bound = try Base.Setting().ask(token { $0["fid"] = .string(id) }, isForFeed: true).get()
        let access = try #require(bound.access(toFeed: "orders", in: "db"))
        #expect(access.admits(uid: id, createdAt: Base.now + 1_000) && !access.admits(uid: other, createdAt: 0))
        let unbound = try Base.Setting().ask(token(), isForFeed: true).get()
        let old = try #require(unbound.access(toFeed: "orders", in: "db"))
        // The token was issued 10 s ago, and clocks may differ by 30 s.
        #expect(old.admits(uid: id, createdAt: Base.now + 20) && !old.admits(uid: id, createdAt: Base.now + 21))
        let admin = try Base.Setting().ask(Base.database, isForFeed: true).get()
        #expect(admin.access(toFeed: "orders", in: "db") == .any)
    }

    /// Checks that rules, settings and operators' pages treat the holder of a feed token as a caller without a
    /// credential.
    @Test func `it is anonymous otherwise`() throws {
        let identity = try Base.Setting().ask(token(), isLoopback: true, isForFeed: true).get()
        #expect(identity.isAnonymous && identity.uid == nil && !identity.context.isAdmin)
        #expect(identity.context.auth.isNull)
        #expect(!identity.mayAdminister && !identity.mayOperate)
    }

    @Test func `it is refused where no feed is asked for`() throws {
        for isLoopback in [false, true] {
            let answer = try Base.Setting().ask(token(), isLoopback: isLoopback)
            #expect(throws: AuthFailure.forFeedOnly) { try answer.get() }
        }
    }

    /// Checks that an administrator's secret can sign feed tokens for all namespaces, and that such a token is valid
    /// only in the namespace that it names.
    @Test func `a token for a feed elsewhere`() throws {
        let setting = try Base.Setting()
        let identity = try setting.ask(token(secret: Base.administrator), namespace: "other", isForFeed: true).get()
        #expect(identity.access(toFeed: "orders", in: "other") == nil)
        // A namespace's secret cannot sign tokens for another namespace.
        let foreign = try setting.ask(token(ns: "other"), isForFeed: true).get()
        #expect(foreign.access(toFeed: "orders", in: "db") == nil)
        #expect(setting.isUnparsable(token(ns: "other"), namespace: "other"))
    }

    @Test func `others may consume if they administer`() throws {
        let setting = try Base.Setting()
        let admin = try setting.ask(Base.database, isForFeed: true).get()
        #expect(admin.access(toFeed: "orders", in: "db") != nil)
        let user = try setting.ask(Base.custom(), isForFeed: true).get()
        #expect(user.access(toFeed: "orders", in: "db") == nil)
        let dataOnly = Base.custom {
            $0["admin"] = true
            $0["scope"] = "data"
        }
        #expect(try setting.ask(dataOnly, isForFeed: true).get().access(toFeed: "orders", in: "db") == nil)
        #expect(try setting.ask(nil, isForFeed: true).get().access(toFeed: "orders", in: "db") == nil)
        #expect(try setting.ask(Base.database, isForFeed: true).get().feed == nil)
    }

    @Test func `it acts as no other caller`() throws {
        let answer = try Base.Setting().ask(token(), override: .auth(Node(["uid": "eve"] as Claims)), isForFeed: true)
        #expect(throws: AuthFailure.overrideRefused) { try answer.get() }
    }

    @Test func `it ends with its time and with its secret`() throws {
        let setting = try Base.Setting()
        let identity = try setting.ask(token(), isForFeed: true).get()
        #expect(setting.authenticator.isValid(identity, now: (Base.now + 129) * 1_000))
        #expect(!setting.authenticator.isValid(identity, now: (Base.now + 130) * 1_000))
        guard case .failure(.expired) = setting.ask(token(), isForFeed: true, now: Base.now + 131) else {
            Issue.record("it was accepted when it had expired")
            return
        }
        setting.authenticator.secrets.replace(administrators: [], databases: [:])
        #expect(!setting.authenticator.isValid(identity, now: Base.now * 1_000))
    }

    @Test(
        arguments: [
            ("feed", nil), ("feed", 7), ("feed", .null), ("feed", ""), ("feed", "a/b"), ("feed", "ä"),
            ("feed", .string(String(repeating: "f", count: 64))), ("ns", nil), ("ns", ""), ("ns", true),
            ("ns", "a.b"), ("fid", 7), ("fid", "x"), ("fid", "0191ABCD-0000-4000-8000-000000000000"), ("admin", true),
            ("admin", false), ("d", ["uid": "ada"]), ("d", .object(Claims())),
        ] as [(String, ClaimValue?)])
    func `tokens that are for no feed`(claim: String, value: ClaimValue?) throws {
        let answer = try Base.Setting().ask(token { $0[claim] = value }, isForFeed: true)
        guard case .failure(.unparsable) = answer else {
            Issue.record("accepted: \(answer)")
            return
        }
    }

    /// Checks that an identity provider's token cannot grant access to a feed: only holders of a secret can issue feed
    /// tokens.
    @Test func `an ID token is for no feed`() throws {
        let identity = try Base.Setting().ask(
            try Base.idToken(
                Base.idClaims {
                    $0["feed"] = "orders"
                    $0["ns"] = "db"
                }), isForFeed: true
        ).get()
        #expect(identity.access(toFeed: "orders", in: "db") == nil && identity.uid == "ada")
    }
}
