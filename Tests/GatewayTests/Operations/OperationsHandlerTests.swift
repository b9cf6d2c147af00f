import Engine
import Placement
import Runtime
import TestSupport
import Testing
import Tree
import Wire

@testable import Gateway
@testable import HTTPServer

/// Tests of the answers to operators and to all other callers.
@Suite struct OperationsHandlerTests {
    private final class Bench {
        let test: TestLoop
        let handler: LoopBound<OperationsHandler>
        let report: LoopBound<ServerReport>

        init(_ test: TestLoop, _ engine: Engine, _ change: (inout GatewaySettings) -> Void) throws {
            self.test = test
            let report = LoopBound(ServerReport())
            self.report = report
            handler = try test.on {
                let services = test.services(change)
                var credentials = GatewayCredentials()
                credentials.acceptsOwner = true
                credentials.administratorSecrets = [.init(Array("a secret of an administrator, long".utf8))]
                credentials.databaseSecrets = ["default": [.init(Array("a secret of one database, and long".utf8))]]
                let facts = GatewayMetricFacts(
                    databases: Databases(primary: engine), metrics: services.metrics,
                    limiter: RateLimiter(services.settings.limits),
                    memory: services.settings.memory, output: services.settings.output,
                    maxReadyLag: services.settings.maxReadyLag,
                    serverReport: { report.content })
                return LoopBound(
                    OperationsHandler(services, CallerResolver(services, credentials: credentials), facts))
            }
        }

        /// Returns the answer to a client at an address.
        func ask(
            _ target: String, _ headers: [String: String] = [:], from address: String = "127.0.0.1"
        ) throws -> WebClient.Response {
            let client = try test.client(from: address)
            let (request, exchange) = try test.exchange(client, "GET", target, headers)
            let handler = handler
            try test.on {
                do throws(RESTError) {
                    if target.hasPrefix("/.health/live") {
                        handler.content.live(exchange.content)
                    } else if target.hasPrefix("/.health") {
                        try handler.content.ready(request, exchange.content)
                    } else {
                        try handler.content.metrics(request, exchange.content)
                    }
                } catch {
                    exchange.content.respond(status: error.status, body: Array(error.message.utf8))
                }
            }
            return try client.answer()
        }
    }

    private func withHandler(
        _ change: (inout GatewaySettings) -> Void = { _ in }, _ body: (Bench, TestEngine) throws -> Void
    ) throws {
        try withEngines(1) { _, engines in
            engines[0].engine.waitUntilConnected(milliseconds: 20_000)
            try withLoop { test in try body(try Bench(test, engines[0].engine, change), engines[0]) }
        }
    }

    private static let elsewhere = "203.0.113.9"
    private static let admin = ["Authorization": "Bearer a secret of an administrator, long"]
    private static let database = ["Authorization": "Bearer a secret of one database, and long"]

    @Test func livenessIsPublic() throws {
        try withHandler { bench, _ in
            for address in ["127.0.0.1", Self.elsewhere] {
                let answer = try bench.ask("/.health/live", from: address)
                #expect(answer.status == 200 && answer.text == "{\"status\":\"live\"}\n")
            }
        }
    }

    @Test func readinessHasDetailsForOperators() throws {
        try withHandler { bench, _ in
            let here = try bench.ask("/.health/ready")
            #expect(here.status == 200)
            #expect(here.text == "{\"status\":\"ready\",\"database\":\"reachable\",\"stale\":false,\"lagEntries\":0}\n")
            let there = try bench.ask("/.health/ready", from: Self.elsewhere)
            #expect(there.status == 200 && there.text == "{\"status\":\"ready\"}\n")
            let admin = try bench.ask("/.health/ready", Self.admin, from: Self.elsewhere)
            #expect(admin.text == here.text)
        }
    }

    @Test func mirrorsAreReported() throws {
        try withHandler { bench, _ in
            bench.report.content.mirrors = [
                MirrorFacts(
                    namespace: "n", name: "users", state: "broken", lagEntries: 3, lagMilliseconds: 40, message: "why"),
                MirrorFacts(
                    namespace: "n", name: "rooms", state: "running", lagEntries: 0, lagMilliseconds: 0, message: nil),
            ]
            let answer = try bench.ask("/.health/ready")
            #expect(answer.status == 200, "a broken mirror keeps no gateway from serving")
            #expect(answer.text.contains("\"n/users\":{\"state\":\"broken\",\"lagEntries\":3,\"broken\":true}"))
            #expect(answer.text.contains("\"n/rooms\":{\"state\":\"running\",\"lagEntries\":0}"))
            #expect(!answer.text.contains("why"))
            #expect(try bench.ask("/.health/ready", from: Self.elsewhere).text.contains("users") == false)
        }
    }

    @Test func metricsAreForOperators() throws {
        try withHandler { bench, _ in
            #expect(try bench.ask("/.metrics").status == 200)
            let refused = try bench.ask("/.metrics", from: Self.elsewhere)
            #expect(refused.status == 401 && !refused.text.contains("pathmirror_"))
            #expect(try bench.ask("/.metrics", Self.admin, from: Self.elsewhere).status == 200)
            // An administrator of one namespace is not an administrator of the gateway.
            #expect(try bench.ask("/.metrics", Self.database, from: Self.elsewhere).status == 401)
            #expect(
                try bench.ask("/.metrics", ["Authorization": "Bearer owner"], from: Self.elsewhere).status == 401)
        }
    }

    @Test func networksMayBeLetIn() throws {
        try withHandler {
            $0.metricsNetworks = [IPNetwork("203.0.113.0/24")].compactMap { $0 }
        } _: { bench, _ in
            let inside = try bench.ask("/.metrics", from: Self.elsewhere)
            #expect(inside.status == 200)
            #expect(try bench.ask("/.metrics", from: "198.51.100.1").status == 401)
            #expect(try bench.ask("/.health/ready", from: Self.elsewhere).text.contains("lagEntries"))
        }
    }

    /// Checks that a remote client does not get local rights through a local proxy that names it.
    @Test func proxiesLendNothing() throws {
        try withHandler { bench, _ in
            let headers = ["X-Forwarded-For": Self.elsewhere]
            let refused = try bench.ask("/.metrics", headers)
            #expect(refused.status == 401)
            #expect(try bench.ask("/.health/ready", headers).text.contains("lagEntries") == false)
        }
    }

    @Test func countsAreReported() throws {
        try withHandler { bench, engine in
            _ = try engine.namespace("n").write(.set("a", .int(1)))
            bench.report.content.server.accepted = 12
            bench.report.content.certificateExpiresAt = 99
            let text = try bench.ask("/.metrics").text
            #expect(text.contains("\npathmirror_writes_total 1\n"))
            #expect(text.contains("pathmirror_log_head_seq{namespace=\"n\"} 1\n"))
            #expect(text.contains("\npathmirror_connections_opened_total 12\n"))
            #expect(text.contains("\npathmirror_tls_certificate_expiry_timestamp_seconds 99\n"))
            #expect(text.contains("pathmirror_rate_limited_total{limit=\"address\"} 0\n"))
        }
    }
}
