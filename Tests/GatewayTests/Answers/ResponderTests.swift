import Engine
import Runtime
import Testing
import Wire

@testable import Gateway
@testable import HTTPServer

/// Tests of the answers to failed requests.
@Suite struct ResponderTests {
    private func answer(_ body: (Responder, HTTPExchange) -> Void) throws -> (WebClient.Response, GatewayMetrics) {
        let metrics = GatewayMetrics()
        var response: WebClient.Response?
        try withLoop { test in
            let client = try test.client()
            let exchange = try test.exchange(client).exchange
            try test.on { body(Responder(metrics), exchange.content) }
            response = try client.answer()
        }
        return (try #require(response), metrics)
    }

    @Test func errorsAreJSON() throws {
        let (answer, metrics) = try answer { $0.respond(RESTError(400, "a \"b\""), to: $1) }
        #expect(answer.status == 400)
        #expect(answer.text == "{\n  \"error\" : \"a \\\"b\\\"\"\n}\n")
        #expect(answer.headers["content-type"] == "application/json; charset=utf-8")
        #expect(answer.headers["cache-control"] == "no-cache")
        #expect(answer.headers["retry-after"] == nil)
        #expect(metrics.clientErrors.current == 1 && metrics.serverErrors.current == 0)
    }

    @Test(arguments: [(400, 1, 0), (401, 1, 0), (404, 1, 0), (429, 1, 0), (500, 0, 1), (503, 0, 1)])
    func errorsAreCounted(_ status: Int, _ client: Int, _ server: Int) throws {
        let (answer, metrics) = try answer { $0.respond(RESTError(status, "x"), to: $1, retryAfter: 7) }
        #expect(answer.status == status)
        #expect(answer.headers["retry-after"] == "7")
        #expect(metrics.clientErrors.current == client && metrics.serverErrors.current == server)
    }

    /// Checks that this error is sent as plain text instead of JSON, as Firebase does.
    @Test func pathsWithoutJSON() throws {
        let (answer, _) = try answer { $0.respond(.appendJSON, to: $1) }
        #expect(answer.headers["content-type"] == "text/plain; charset=utf-8")
        #expect(answer.text == "\(RESTError.appendJSON.message)\n")
    }

    @Test(
        arguments: [
            (EngineError.unknownNamespace("x"), 404, nil), (.unavailable("host 10.0.0.1 port 5432"), 503, 1),
            (.overloaded, 503, 1), (.stopping, 503, 1), (.outcomeUnknown, 503, 1), (.corrupt("row 7"), 500, nil),
            (.readOnly, 405, nil), (.superseded, 503, 1),
        ] as [(EngineError, Int, Int?)])
    func errorsOfTheEngine(_ error: EngineError, _ status: Int, _ retryAfter: Int?) throws {
        let (answer, _) = try answer { $0.respond(error, to: $1) }
        #expect(answer.status == status)
        #expect(answer.headers["retry-after"] == retryAfter.map { "\($0)" })
        // Details are only for operators.
        for secret in ["10.0.0.1", "5432", "row 7"] { #expect(!answer.text.contains(secret)) }
    }

    @Test func preflights() throws {
        let plain = try TestRequest.make("OPTIONS", "/a.json")
        let (answer, _) = try answer { $0.respondToPreflight(plain, $1) }
        #expect(answer.status == 200)
        #expect(answer.headers["access-control-allow-methods"] == "GET, PUT, POST, PATCH, DELETE, HEAD, OPTIONS")
        #expect(answer.headers["access-control-max-age"] == "3600")
        #expect(answer.headers["access-control-allow-headers"] == nil)
        let asking = try TestRequest.make(
            "OPTIONS", "/a.json", [("Access-Control-Request-Headers", "if-match, x-firebase-etag")])
        let (second, _) = try self.answer { $0.respondToPreflight(asking, $1) }
        #expect(second.headers["access-control-allow-headers"] == "if-match, x-firebase-etag")
    }

    @Test func errorBodies() {
        #expect(ErrorBody.encode("x") == Array("{\n  \"error\" : \"x\"\n}\n".utf8))
        #expect(ErrorBody.encode("\n") == Array("{\n  \"error\" : \"\\n\"\n}\n".utf8))
    }
}
