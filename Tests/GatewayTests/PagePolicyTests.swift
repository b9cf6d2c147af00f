import Testing

@testable import Gateway

/// Tests of the pages that may send requests, and of the host names that they may use.
struct PagePolicyTests {
    static func allowed(_ texts: String...) throws -> [AllowedOrigin] { try texts.map { try AllowedOrigin($0) } }

    static func signs(
        _ host: String = "localhost:9000", origin: String? = nil, site: String? = nil, referer: String? = nil
    ) -> PagePolicy.Signs {
        PagePolicy.Signs(hosts: [host], origins: origin.map { [$0] } ?? [], site: site, referer: referer)
    }

    static let dev = PagePolicy.thisMachine()

    // MARK: Names

    @Test(arguments: [
        "localhost", "localhost:9000", "LOCALHOST:9000", "localhost.", "localhost.:9000", "localhost:",
        "ns.localhost:9000",
        "a.b.localhost", "NS.LocalHost.:1", "my_ns-1.localhost", "127.0.0.1", "127.0.0.1:9000", "127.1.2.3:80", "[::1]",
        "[::1]:9000", "[0:0:0:0:0:0:0:1]:9000", "[::ffff:127.0.0.1]:9000", "10.0.2.2:9000",
    ]) func thisMachinesNames(_ host: String) {
        #expect(Self.dev.judge(Self.signs(host)) == .admitted(origin: nil))
    }

    @Test(arguments: [
        "", ":9000", ".", "evil.example", "evil.example:9000", "localhost.evil.example", "evillocalhost", ".localhost",
        "a..localhost", "localhost..", "localhost:9000:9000", "localhost:x", "localhost:+1", "localhost:99999",
        "localhost@evil.example", "evil.example@localhost", "localhost/", "localhost, evil.example", "localhost evil",
        "0.0.0.0:9000", "127.1", "2130706433", "0x7f.0.0.1", "127.0.0.1.evil.example", "128.0.0.1", "192.168.1.7:9000",
        "[::]:9000", "[::2]", "[fe80::1]", "[::1", "::1", "[::1%lo]", "[127.0.0.1]", "[::1]x", "10.0.2.3", "lócalhost",
        "localhost\u{0}", "localhost%2eevil.example",
    ]) func othersNames(_ host: String) {
        #expect(Self.dev.judge(Self.signs(host)) == .refused(.name(host)))
        #expect(Self.dev.judge(Self.signs(host, origin: "http://localhost:3000")) == .refused(.name(host)))
    }

    @Test func everyNameOfARequestCounts() {
        var signs = Self.signs()
        signs.hosts = ["localhost", "evil.example"]
        #expect(Self.dev.judge(signs) == .refused(.name("evil.example")))
        signs.hosts = ["evil.example", "localhost"]
        #expect(Self.dev.judge(signs) == .refused(.name("evil.example")))
        signs.hosts = []
        #expect(Self.dev.judge(signs) == .admitted(origin: nil), "HTTP/1.0, which browsers don't speak")
    }

    @Test func hostsOfAllowedOriginsAreNames() throws {
        let policy = PagePolicy.thisMachine(and: try Self.allowed("https://App.Test:3000", "http://*.db.test"))
        for host in ["app.test", "APP.TEST.:9000", "ns.db.test:9000", "a.b.db.test"] {
            #expect(policy.judge(Self.signs(host)) == .admitted(origin: nil), "\(host)")
        }
        for host in ["x.app.test", "db.test", "evildb.test", "app.test.evil.example"] {
            #expect(policy.judge(Self.signs(host)) == .refused(.name(host)), "\(host)")
        }
    }

    // MARK: Pages

    @Test(arguments: [
        "http://localhost", "http://localhost:3000", "https://localhost:3000", "HTTP://LOCALHOST:3000",
        "http://app.localhost",
        "http://127.0.0.1:5173", "http://127.9.9.9", "http://[::1]:3000", "capacitor://localhost",
        "http://localhost.:80",
    ]) func thisMachinesPages(_ origin: String) {
        #expect(Self.dev.judge(Self.signs(origin: origin)) == .admitted(origin: origin))
    }

    @Test(arguments: [
        "null", "NULL", "", "http://evil.example", "https://evil.example:9000", "http://localhost.evil.example",
        "http://evillocalhost:3000", "http://192.168.1.7:3000", "http://0.0.0.0:9000", "file://", "localhost",
        "http://localhost:3000/", "http://localhost:3000 http://evil.example", "http://evil.example@localhost",
        "http://localhost,http://evil.example", "://localhost", "http:/localhost", "chrome-extension://abcdef",
        "http://10.0.2.2:9000",
    ]) func othersPages(_ origin: String) {
        #expect(Self.dev.judge(Self.signs(origin: origin)) == .refused(.page(origin)))
    }

    @Test func everyLineOfOriginsCounts() {
        var signs = Self.signs()
        signs.origins = ["http://localhost:3000", "http://evil.example"]
        #expect(Self.dev.judge(signs) == .refused(.page("http://evil.example")))
        signs.origins = ["http://localhost:3000", "http://localhost:3001"]
        #expect(Self.dev.judge(signs) == .admitted(origin: nil))
    }

    /// Checks the gateway's own address as origin: several SDKs send the address that they call.
    @Test func theGatewaysOwnAddress() {
        #expect(
            Self.dev.judge(Self.signs("10.0.2.2:9000", origin: "http://10.0.2.2:9000"))
                == .admitted(origin: "http://10.0.2.2:9000"))
        let listed = PagePolicy.only([])
        for (host, origin, isAdmitted) in [
            ("db.example", "https://db.example", true), ("db.example", "http://db.example:80", true),
            ("db.example:443", "https://db.example", true), ("DB.example", "https://db.example.", true),
            ("db.example", "https://db.example:8443", false), ("db.example", "https://other.example", false),
            ("db.example:9000", "http://db.example", false),
        ] {
            let expected: PagePolicy.Verdict = isAdmitted ? .admitted(origin: origin) : .refused(.page(origin))
            #expect(listed.judge(Self.signs(host, origin: origin)) == expected, "\(host) \(origin)")
        }
    }

    @Test func allowedPages() throws {
        let policy = PagePolicy.thisMachine(
            and: try Self.allowed("https://app.test", "http://lan.test:3000/", "https://*.preview.test", "null"))
        for origin in [
            "https://app.test", "https://app.test:443", "http://lan.test:3000", "https://a.preview.test",
            "https://a.b.preview.test", "null", "http://localhost:1",
        ] {
            #expect(policy.judge(Self.signs(origin: origin)) == .admitted(origin: origin), "\(origin)")
        }
        for origin in [
            "http://app.test", "https://app.test:8443", "https://x.app.test", "http://lan.test", "https://preview.test",
            "https://a.preview.test:8443", "http://a.preview.test", "https://evilpreview.test",
        ] {
            #expect(policy.judge(Self.signs(origin: origin)) == .refused(.page(origin)), "\(origin)")
        }
    }

    /// Checks requests of scripts, images, frames and links, which include long polling and JSONP.
    @Test func requestsThatBrowsersSendWithoutOrigin() throws {
        func judge(
            _ site: String?, _ referer: String?, _ policy: PagePolicy = Self.dev, host: String = "localhost:9000"
        )
            -> PagePolicy.Verdict
        {
            policy.judge(Self.signs(host, site: site, referer: referer))
        }
        let fine = PagePolicy.Verdict.admitted(origin: nil)
        #expect(judge(nil, nil) == fine, "curl, SDKs")
        #expect(judge("none", nil) == fine, "typed in")
        #expect(judge("same-origin", "http://localhost:9000/.lp?dframe=t") == fine)
        #expect(judge("same-site", nil) == fine, "localhost, another port")
        #expect(judge("same-site", "http://localhost:3000/") == fine)
        #expect(judge("cross-site", "http://localhost:3000/a/b?c#d", host: "127.0.0.1:9000") == fine)
        #expect(judge(nil, "http://localhost:3000/") == fine)
        #expect(judge("cross-site", nil) == .refused(.unnamedPage))
        #expect(judge("cross-site", "not a url") == .refused(.unnamedPage))
        #expect(judge("made-up", nil) == .refused(.unnamedPage))
        #expect(judge("cross-site", "https://evil.example/x") == .refused(.page("https://evil.example")))
        #expect(judge("same-site", "https://evil.example/x") == .refused(.page("https://evil.example")))
        #expect(judge(nil, "http://evil.example/?http://localhost") == .refused(.page("http://evil.example")))
        let open = PagePolicy.thisMachine(and: try Self.allowed("https://app.test", "null"))
        #expect(judge("cross-site", "https://app.test/", open) == fine)
        #expect(judge("cross-site", nil, open) == fine, "it may hide")
        let corporate = PagePolicy.thisMachine(and: try Self.allowed("http://db.corp.test:9000"))
        #expect(judge("same-site", nil, corporate, host: "db.corp.test:9000") == .refused(.unnamedPage))
    }

    // MARK: Other policies

    @Test func allWithoutAPolicy() {
        for origin in ["null", "http://evil.example", ""] {
            #expect(PagePolicy.everyPage.judge(Self.signs("any.example", origin: origin)) == .all)
        }
    }

    @Test func aListIsAListEverywhere() throws {
        let policy = PagePolicy.only(try Self.allowed("https://app.test"))
        #expect(
            policy.judge(Self.signs("any.example", origin: "https://app.test")) == .admitted(origin: "https://app.test")
        )
        #expect(policy.judge(Self.signs("any.example")) == .admitted(origin: nil))
        #expect(policy.judge(Self.signs("")) == .admitted(origin: nil))
        for origin in ["http://localhost:3000", "null", "https://evil.example"] {
            #expect(policy.judge(Self.signs("any.example", origin: origin)) == .refused(.page(origin)), "\(origin)")
        }
        #expect(policy.judge(Self.signs("localhost", site: "same-site")) == .refused(.unnamedPage))
    }

    @Test(arguments: [
        "*", "", "app.test", "app.test:3000", "http://", "http://a b", "http://a/b", "http://a?b", "http://*",
        "http://*.",
        "http://a.*.b", "http://*.127.0.0.1", "http://a:99999", "http://u@a", "http://ä.example", "//a",
    ]) func whatIsNoOrigin(_ text: String) {
        #expect(throws: AllowedOrigin.Mistake.self) { try AllowedOrigin(text) }
    }

    // MARK: Errors

    @Test func errorsNameTheFix() {
        #expect(
            PageRefusal.name("db.test:9000").text(isSecure: false)
                == "\"db.test:9000\" is not a name of this machine, and pathmirror dev accepts no other names: use localhost, "
                + "or start it with --allow-origin http://db.test:9000")
        #expect(PageRefusal.name("db.test").text(isSecure: true).hasSuffix("--allow-origin https://db.test"))
        #expect(!PageRefusal.name("a b").text(isSecure: true).contains("--allow-origin"))
        // The message does not repeat a credential that a malformed request has put into the name.
        for secret in ["localhuthorization: Bearer abc", "localhost" + String(repeating: "s", count: 70)] {
            for refusal in [PageRefusal.name(secret), .page("http://" + secret), .page(secret)] {
                #expect(!refusal.text(isSecure: false).contains(secret.suffix(3)))
            }
        }
        #expect(
            PageRefusal.page("http://evil.example").text(isSecure: false)
                == "Pages of \"http://evil.example\" may not use this gateway: to allow them, start it with "
                + "--allow-origin http://evil.example")
        #expect(PageRefusal.page("null").text(isSecure: false).contains("--allow-origin null"))
        #expect(PageRefusal.unnamedPage.text(isSecure: false).contains("--allow-origin null"))
        #expect(PageRefusal.page(String(repeating: "x", count: 80_000)).text(isSecure: false).count < 500)
    }

    @Test func theLogHasEachOnceAndNotEndlessly() {
        let refusals = RefusedPages()
        #expect(refusals.isNew(.name("a")))
        #expect(!refusals.isNew(.name("a")))
        #expect(refusals.isNew(.page("a")))
        let count = (0..<1_000).count { refusals.isNew(.page("http://\($0).example")) }
        #expect(count < 100)
    }
}
