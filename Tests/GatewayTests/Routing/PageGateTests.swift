import Testing

@testable import Gateway
@testable import HTTPServer

/// Tests of whether a request is admitted, given the page that sent it, and of the pages that may read the answer.
@Suite struct PageGateTests {
    /// Returns the answer to a request that passes through the gate. An admitted request is answered 200.
    private func answer(
        _ policy: PagePolicy, _ target: String = "/a.json", _ headers: [String: String] = [:], strictSeconds: Int = 0
    ) throws -> WebClient.Response {
        try answers(policy, [(target, headers)], strictSeconds: strictSeconds)[0]
    }

    private func answers(
        _ policy: PagePolicy, _ requests: [(String, [String: String])], strictSeconds: Int = 0
    ) throws -> [WebClient.Response] {
        var answers: [WebClient.Response] = []
        try withLoop { test in
            let gate = try test.on {
                let services = test.services {
                    $0.pages = policy
                    $0.strictTransportSeconds = strictSeconds
                }
                return LoopBound(PageGate(RefusedPages(), CallerResolver(services), .silent, services))
            }
            for (target, headers) in requests {
                let client = try test.client()
                let (request, exchange) = try test.exchange(client, "GET", target, headers)
                try test.on {
                    if gate.content.admits(request, exchange.content) {
                        exchange.content.respond(status: 200, body: [])
                    }
                }
                answers.append(try client.answer())
            }
        }
        return answers
    }

    @Test func openGatewaysAllowAllReads() throws {
        let answer = try answer(.everyPage, "/a.json", ["Origin": "https://any.example"])
        #expect(answer.status == 200)
        #expect(answer.headers["access-control-allow-origin"] == "*")
        #expect(answer.headers["vary"] == nil)
    }

    /// Checks that the metrics page has no CORS header, so that no web page can read it.
    @Test func metricsAreForNoPage() throws {
        let answer = try answer(.everyPage, "/.metrics", ["Origin": "https://any.example"])
        #expect(answer.status == 200)
        #expect(answer.headers["access-control-allow-origin"] == nil)
    }

    @Test func pagesOfThisMachineReadTheirAnswers() throws {
        let answer = try answer(.thisMachine(), "/a.json", ["Origin": "http://localhost:3000"])
        #expect(answer.status == 200)
        #expect(answer.headers["access-control-allow-origin"] == "http://localhost:3000")
        #expect(answer.headers["vary"] == "Origin")
    }

    @Test func programsAreServed() throws {
        let answer = try answer(.thisMachine())
        #expect(answer.status == 200)
        #expect(answer.headers["access-control-allow-origin"] == nil)
        #expect(answer.headers["vary"] == "Origin")
    }

    @Test func otherPagesAreRefused() throws {
        let answer = try answer(.thisMachine(), "/a.json", ["Origin": "https://evil.example"])
        #expect(answer.status == 403)
        #expect(answer.text.contains("https://evil.example"))
        #expect(answer.headers["access-control-allow-origin"] == nil)
    }

    @Test(
        arguments: [
            ["Origin": "https://evil.example"], ["Sec-Fetch-Site": "cross-site"],
            ["Referer": "https://evil.example/page"], ["Origin": "null"],
        ])
    func afterAProgramPagesAreStillLookedAt(_ headers: [String: String]) throws {
        let statuses = try answers(.thisMachine(), [("/a.json", [:]), ("/a.json", headers), ("/a.json", [:])])
            .map(\.status)
        #expect(statuses == [200, 403, 200])
    }

    /// Checks that an absolute target is checked as well: a program is only admitted under exactly the name that it
    /// used.
    @Test func absoluteTargetsAreLookedAt() throws {
        let statuses = try answers(.thisMachine(), [("/a.json", [:]), ("http://evil.example/a.json", [:])]).map(
            \.status)
        #expect(statuses == [200, 403])
    }

    @Test(
        arguments: [
            ("api.example", true, 100, "max-age=100"), ("api.example", false, 100, nil), ("api.example", true, 0, nil),
            ("localhost", true, 100, nil), ("127.0.0.1:8443", true, 100, nil), ("[::1]", true, 100, nil),
        ] as [(String, Bool, Int, String?)])
    func secureHostsStaySecure(_ host: String, _ isSecure: Bool, _ seconds: Int, _ wanted: String?) throws {
        try withLoop { test in
            let client = try test.client()
            let exchange = try test.exchange(client).exchange
            let request = try TestRequest.make("GET", "/a.json", [("Host", host)], isSecure: isSecure)
            try test.on {
                let services = test.services { $0.strictTransportSeconds = seconds }
                let gate = PageGate(RefusedPages(), CallerResolver(services), .silent, services)
                #expect(gate.admits(request, exchange.content))
                exchange.content.respond(status: 200, body: [])
            }
            #expect(try client.answer().headers["strict-transport-security"] == wanted)
        }
    }

    @Test func headersOfVerdicts() {
        let page = PagePolicy.Verdict.admitted(origin: "http://a.test")
        let lines = { (verdict: PagePolicy.Verdict, isMetrics: Bool) in
            String(decoding: PageGate.headers(verdict, isMetrics: isMetrics).encoded, as: UTF8.self)
        }
        #expect(lines(.all, false) == "Access-Control-Allow-Origin: *\r\n")
        #expect(lines(.all, true) == "")
        for isMetrics in [false, true] {
            #expect(lines(.admitted(origin: nil), isMetrics) == "Vary: Origin\r\n")
            #expect(lines(.refused(.unnamedPage), isMetrics) == "Vary: Origin\r\n")
            #expect(lines(page, isMetrics) == "Vary: Origin\r\nAccess-Control-Allow-Origin: http://a.test\r\n")
        }
    }

    // MARK: The log

    /// Checks that only the first refusal of each page is logged: a page may retry forever, under any name.
    @Test func theLogHasTheFirstRefusals() {
        let refused = RefusedPages()
        #expect(refused.isNew(.page("a")))
        #expect(!refused.isNew(.page("a")))
        #expect(refused.isNew(.name("a")))
        #expect(refused.isNew(.unnamedPage))
        var count = 3
        for number in 0..<1_000 where refused.isNew(.page("p\(number)")) { count += 1 }
        #expect(count == 64)
    }
}
