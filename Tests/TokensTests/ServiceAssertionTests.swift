import Crypto
import TestSupport
import Testing

@testable import Tokens

/// Tests of service accounts' assertions and access tokens.
@Suite struct ServiceAssertionTests {
    private static let now: Int64 = 1_800_000_000
    private static let issuer = "server@service-account.pathmirror"
    private static let audience = "https://db.example/.oauth2/token"

    private static func claims(_ change: (inout Claims) -> Void = { _ in }) -> Claims {
        var claims: Claims = [
            "iss": .string(issuer), "aud": .string(audience), "iat": .integer(now), "exp": .integer(now + 3_600),
        ]
        change(&claims)
        return claims
    }

    private static func text(_ claims: Claims = claims(), keyID: String = "k") throws -> String {
        try JWT.mint(claims, key: try TestKeys.privateKey(), keyID: keyID)
    }

    private static func problem(_ change: (inout Claims) -> Void) throws -> JWTError? {
        let assertion = try ServiceAssertion(try text(claims(change)))
        do throws(JWTError) {
            try assertion.check(issuer: issuer, audience: audience, now: now, skew: 30)
            return nil
        } catch {
            return error
        }
    }

    @Test func theSignatureDecides() throws {
        let assertion = try ServiceAssertion(try Self.text())
        #expect(assertion.keyID == "k")
        try assertion.verifySignature(try TestKeys.publicKey())
        let other = try RSAPublicKey(der: try RSAPrivateKey.generate().publicKeyDER())
        #expect(throws: JWTError.badSignature) { try assertion.verifySignature(other) }
    }

    @Test func onlyRS256WithAKeyIDIsParsed() throws {
        for text in [
            "", "x", "a.b.c", JWT.mint(Self.claims(), secret: [1]), JWT.mintUnsigned(Self.claims()),
            try Self.text(keyID: ""), try Self.text(keyID: String(repeating: "k", count: 65)),
            try Self.text(Self.claims { $0["x"] = .string(String(repeating: "x", count: 4_096)) }),
        ] {
            #expect(throws: JWTError.self) { try ServiceAssertion(text) }
        }
    }

    @Test func claimsAreChecked() throws {
        #expect(try Self.problem { _ in } == nil)
        #expect(try Self.problem { $0["aud"] = .string(ServiceAssertion.googleAudience) } == nil)
        #expect(try Self.problem { $0["sub"] = .string(Self.issuer) } == nil)
        #expect(try Self.problem { $0["iss"] = "x" } == .wrongIssuer)
        #expect(try Self.problem { $0["iss"] = nil } == .wrongIssuer)
        #expect(try Self.problem { $0["aud"] = "x" } == .wrongAudience)
        #expect(try Self.problem { $0["aud"] = [.string(Self.audience)] } == .wrongAudience)
        #expect(try Self.problem { $0["sub"] = "ada" } == .badClaim("sub"))
        #expect(try Self.problem { $0["iat"] = nil } == .badClaim("iat"))
        #expect(try Self.problem { $0["exp"] = nil } == .badClaim("exp"))
        #expect(try Self.problem { $0["exp"] = .integer(Self.now + 3_601) } == .badClaim("exp"))
        #expect(try Self.problem { $0["exp"] = .integer(Self.now) } == .badClaim("exp"))
        #expect(try Self.problem { $0["exp"] = .integer(Self.now - 30) } == .expired(secondsAgo: 30))
        #expect(try Self.problem { $0["iat"] = .integer(Self.now + 31) } == .notYetValid(claim: "iat"))
    }

    @Test func accessTokensAreOfTheirKeyAndTime() throws {
        let token = ServiceToken(keyID: "k", issuedAt: Self.now, expiresAt: Self.now + 3_600)
        let parsed = try JWT(token.text(signedWith: [1, 2]))
        #expect(ServiceToken.isClaimed(by: parsed))
        #expect(try ServiceToken(parsed, key: [1, 2], now: Self.now, skew: 30) == token)
        #expect(throws: JWTError.badSignature) { try ServiceToken(parsed, key: [1, 3], now: Self.now, skew: 30) }
        #expect(throws: JWTError.expired(secondsAgo: 30)) {
            try ServiceToken(parsed, key: [1, 2], now: Self.now + 3_630, skew: 30)
        }
        #expect(!ServiceToken.isClaimed(by: try JWT(JWT.mint(["v": 0], secret: [1, 2]))))
        #expect(!ServiceToken.isClaimed(by: try JWT(JWT.mintUnsigned(parsed.claims))))
    }
}
