import Rules
import Testing
import Tree

@testable import Gateway

/// Tests of which callers count as local, and of the rights of local callers.
struct AccessForwardedTests {
    static func isLocal(_ addresses: [String] = [], forwarded: [String] = []) -> Bool {
        ForwardedHeaders.nameOnlyThisMachine(addresses: addresses, forwarded: forwarded)
    }

    @Test(arguments: [
        [], ["127.0.0.1"], ["127.3.2.1:4711"], ["::1"], ["[::1]:80"], ["::ffff:127.0.0.1"], [" 127.0.0.1 , ::1\t"],
        ["127.0.0.1", "::1"],
    ]) func thisMachine(_ lines: [String]) { #expect(Self.isLocal(lines)) }

    @Test(arguments: [
        ["203.0.113.9"], ["203.0.113.9, 127.0.0.1"], ["127.0.0.1, 203.0.113.9"], ["127.0.0.1", "203.0.113.9"],
        ["10.0.0.1"],
        ["::"], ["2001:db8::1"], ["::ffff:203.0.113.9"], ["unknown"], [""], ["127.0.0.1,"], ["localhost"],
        ["127.0.0.1 x"],
        ["_hidden"], ["0"], ["127.1"],
    ]) func others(_ lines: [String]) { #expect(!Self.isLocal(lines)) }

    @Test func theStandardHeader() {
        for line in ["for=127.0.0.1", "For=\"[::1]:4711\";proto=http;by=203.0.113.1", "for=127.0.0.1, for=\"[::1]\""] {
            #expect(Self.isLocal(forwarded: [line]), "\(line)")
        }
        for line in [
            "for=203.0.113.9", "for=127.0.0.1, for=203.0.113.9", "for=127.0.0.1;for=203.0.113.9", "for=unknown",
            "for=_x",
            "proto=https", "", "for", "for=", "by=127.0.0.1", "for=127.0.0.1,",
        ] {
            #expect(!Self.isLocal(forwarded: [line]), "\(line)")
        }
        #expect(!Self.isLocal(["127.0.0.1"], forwarded: ["for=203.0.113.9"]))
        #expect(!Self.isLocal(["203.0.113.9"], forwarded: ["for=127.0.0.1"]))
    }

    /// Checks that an identity records whether its caller is local, regardless of the credential.
    @Test func sessionsKnowWhereTheirCallerIs() throws {
        let setting = try AccessAuthenticatorTests.Setting {
            $0.acceptsOwner = true
            $0.acceptsUnsignedTokens = true
        }
        for isLoopback in [true, false] {
            #expect(try setting.ask(nil, isLoopback: isLoopback).get().context.isElsewhere == !isLoopback)
            let token = try AccessAuthenticatorTests.idToken()
            for _ in 0..<2 {
                // The second attempt finds the token in the cache.
                #expect(try setting.ask(token, isLoopback: isLoopback).get().context.isElsewhere == !isLoopback)
            }
        }
    }
}
