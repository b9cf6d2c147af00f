import Testing
import Tokens

struct TokenTimesTests {
    private func check(_ claims: Claims, now: Int64, skew: Int64 = 30, life: Int64? = nil) throws(JWTError)
        -> TokenTimes
    {
        try TokenTimes(claims, now: now, skew: skew, requiresExpiry: life == nil, lifeWithoutExpiry: life)
    }

    @Test func `a token ends at its end, and a little later for clocks that differ`() throws {
        let claims: Claims = ["iat": 1_000, "exp": 2_000]
        #expect(try check(claims, now: 1_500).expiresAt == 2_000)
        #expect(try check(claims, now: 2_029).issuedAt == 1_000)
        #expect(throws: JWTError.expired(secondsAgo: 30)) { try check(claims, now: 2_030) }
        #expect(throws: JWTError.expired(secondsAgo: 0)) { try check(claims, now: 2_000, skew: 0) }
    }

    @Test(arguments: ["iat", "nbf", "auth_time"])
    func `a token from the future`(claim: String) throws {
        var claims: Claims = ["exp": 9_000]
        claims[claim] = 1_031
        #expect(throws: JWTError.notYetValid(claim: claim)) { try check(claims, now: 1_000) }
        _ = try check(claims, now: 1_001)
    }

    @Test func `without an end it has a life`() throws {
        #expect(throws: JWTError.badClaim("exp")) { try check(["iat": 1], now: 1) }
        #expect(try check(["iat": 1_000], now: 1_000, life: 100).expiresAt == 1_100)
        #expect(throws: JWTError.expired(secondsAgo: 900)) { try check(["iat": 1_000], now: 2_000, life: 100) }
        #expect(throws: JWTError.badClaim("iat")) { try check([:], now: 1, life: 100) }
    }

    @Test(
        arguments: [
            "2000", .null, true, -1, .number(-0.5), .number(1e300), .number(.infinity), .number(.nan),
            .integer(.max), .array([2_000]),
        ] as [ClaimValue])
    func `what is no time is refused`(value: ClaimValue) {
        var claims: Claims = ["iat": 1_000]
        claims["exp"] = value
        #expect(throws: JWTError.badClaim("exp")) { try check(claims, now: 1_000) }
    }

    @Test func `fractions of seconds`() throws {
        #expect(try check(["exp": .number(2_000.9)], now: 1_000).expiresAt == 2_000)
    }
}
