import HTTPClient
import HTTPServer
import JSONText
import Runtime
import TestSupport
import Testing
import Tree

@testable import Feeds

/// Checks that each message has exactly one outcome, in time and correct, whatever the endpoint does.
@Suite struct WebhookSinkTests {
    private static let secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"

    private static func definition(_ url: String, _ rest: String = "") throws -> WebhookDefinition {
        var problems: [DefinitionError.Problem] = []
        let text = #"{"url":"\#(url)","secrets":["\#(secret)"]\#(rest)}"#
        let value = try SourceText.read(Array(text.utf8))
        let definition = WebhookDefinition.read(value, problems: &problems)
        #expect(problems.isEmpty)
        return try #require(definition)
    }

    /// Returns a sink that may connect to the local machine by its IP address.
    private static func sink(
        _ client: HTTPClient, _ url: String, _ rest: String = "", environment: [String: String] = [:],
        hosts: Set<String> = ["127.0.0.1"]
    ) throws -> WebhookSink {
        try WebhookSink(
            definition(url, rest), exceptions: .init(hosts: hosts), client: client, environment: { environment[$0] },
            clock: { 1_763_805_600_999 })
    }

    private static func failed(_ reason: String, _ pause: Int64? = nil) -> SinkOutcome {
        .failed(reason: reason, retryAfterMilliseconds: pause)
    }

    /// A message without its values makes no event: the function would see a wrong change.
    @Test func eventsOfFunctionsNeedBothValues() throws {
        let server = try EndpointServer()
        let client = try HTTPClient()
        defer { client.stop() }
        let sink = try Self.sink(client, server.url("/"), #","format":"firebase""#)
        let whole = SinkMessage.sample(1)
        let part = SinkMessage(
            id: whole.id, namespace: whole.namespace, feed: whole.feed, key: whole.key, path: whole.path,
            event: whole.event, seq: whole.seq, time: whole.time, attempt: 1, json: whole.json)
        #expect(sink.results(of: [part]).map(\.isRefusal) == [true])
        #expect(server.arrived.isEmpty)
        #expect(sink.results(of: [whole]) == [.delivered])
        #expect(server.arrived.map(\.contentType) == ["application/json"])
    }

    @Test func whatArrives() throws {
        let server = try EndpointServer()
        let client = try HTTPClient()
        defer { client.stop() }
        let rest = #","headers":{"Authorization":"env:PATHMIRROR_SINK_TOKEN","X-Team":"a"}"#
        let sink = try Self.sink(
            client, server.url("/hook?a=b"), rest, environment: ["PATHMIRROR_SINK_TOKEN": "Bearer 7"])
        let message = SinkMessage.sample(42)
        #expect(sink.results(of: [message]) == [.delivered])
        let arrived = try #require(server.arrived.first)
        #expect(arrived.line == "POST /hook?a=b")
        #expect(arrived.body == message.json)
        #expect(arrived.authorization == "Bearer 7")
        #expect(arrived.contentType == "application/json")
        #expect(arrived.id == message.id && arrived.timestamp == "1763805600")
        let key = Secret(try WebhookSignature.key(Self.secret))
        #expect(
            arrived.signature
                == WebhookSignature.header(
                    id: message.id, timestampSeconds: 1_763_805_600, body: message.json, keys: [key]))
    }

    @Test func aBatchIsOneRequest() throws {
        let server = try EndpointServer { _, exchange in
            exchange.respond(status: 200, body: Array(#"{"failed":["default:2:0"]}"#.utf8))
        }
        let client = try HTTPClient()
        defer { client.stop() }
        let sink = try Self.sink(client, server.url("/"), #","batch":10,"concurrency":2,"timeout":"7s""#)
        #expect(sink.batchSize == 10 && sink.concurrency == 2 && sink.timeoutMilliseconds == 12_000)
        let outcomes = sink.results(of: [.sample(1), .sample(2, key: "o2"), .sample(3)])
        #expect(outcomes == [.delivered, Self.failed("The endpoint named the message as failed."), .delivered])
        #expect(server.arrived.count == 1)
        #expect(sink.results(of: []) == [])
        #expect(server.arrived.count == 1)
    }

    @Test func fiveHundredThenTwoHundred() throws {
        let server = try EndpointServer { number, exchange in
            if number < 2 {
                exchange.respond(status: 500, headers: ["Retry-After": "3"])
                return
            }
            exchange.respond(status: 200)
        }
        let client = try HTTPClient()
        defer { client.stop() }
        let sink = try Self.sink(client, server.url("/"))
        let failure = Self.failed("The endpoint answered with status 500.", 3_000)
        #expect((0..<3).map { _ in sink.results(of: [.sample(1)]) } == [[failure], [failure], [.delivered]])
        #expect(Set(server.arrived.map(\.id)) == ["default:1:0"])
    }

    @Test func anEndpointThatIsSlow() throws {
        let server = try RawServer(["HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"], .staysSilent)
        let client = try HTTPClient()
        defer { client.stop() }
        let sink = try Self.sink(client, server.url(), #","timeout":"200ms""#)
        let outcomes = withExtendedLifetime(server) { sink.results(of: [.sample(1)]) }
        #expect(outcomes == [Self.failed("The server took too long.")])
    }

    @Test(arguments: [
        "", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", "nonsense\r\n\r\n",
    ]) func anEndpointThatResets(_ answer: String) throws {
        for ending in [RawServer.Ending.resets, .closes] {
            let server = try RawServer([answer], ending)
            let client = try HTTPClient()
            defer { client.stop() }
            let sink = try Self.sink(client, server.url())
            guard case .failed(let reason, nil)? = sink.results(of: [.sample(1)]).first else {
                Issue.record("it was not failed")
                return
            }
            #expect(reason.hasPrefix("The request failed: "))
        }
    }

    /// Checks that an answer is read up to its limit. Beyond the limit, the failed messages cannot be determined.
    @Test func answersWithoutEnd() throws {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n"
        let endless = head + String(repeating: "x", count: WebhookAnswer.maxBytes + 1)
        let server = try RawServer([endless, endless], .staysSilent)
        let client = try HTTPClient()
        defer { client.stop() }
        let sink = try Self.sink(client, server.url(), #","batch":2"#)
        let (alone, together) = withExtendedLifetime(server) {
            (sink.results(of: [.sample(1)]), sink.results(of: [.sample(1), .sample(2)]))
        }
        #expect(alone.count == 1 && alone != [.delivered])
        #expect(together.count == 2 && together.allSatisfy { $0 != .delivered })
    }

    @Test func redirects() throws {
        let other = try EndpointServer()
        let target = other.url("/there")
        let server = try EndpointServer { number, exchange in
            exchange.respond(status: number == 0 ? 307 : 302, headers: ["Location": HTTPHeaders.Value(target)])
        }
        let client = try HTTPClient()
        defer { client.stop() }
        let sink = try Self.sink(client, server.url("/"), #","headers":{"Authorization":"Bearer 7"}"#)
        #expect(sink.results(of: [.sample(1)]) == [.delivered])
        let arrived = try #require(other.arrived.first)
        #expect(
            arrived.line == "POST /there" && arrived.body == SinkMessage.sample(1).json && arrived.id == "default:1:0")
        #expect(arrived.authorization == nil)
        let reason = "The endpoint answered with status 302; only 307 and 308 are followed."
        #expect(sink.results(of: [.sample(2)]) == [Self.failed(reason)])
        #expect(other.arrived.count == 1)
    }

    @Test func privateAddressesAreForNamedHosts() throws {
        let server = try EndpointServer()
        let client = try HTTPClient()
        defer { client.stop() }
        let reason = "127.0.0.1 has no public address, and is not an allowed address (--webhook-allow)."
        let outcomes = try Self.sink(client, server.url("/"), hosts: []).results(of: [.sample(1), .sample(2)])
        #expect(outcomes == [Self.failed(reason), Self.failed(reason)])
        #expect(server.arrived.isEmpty)
    }

    @Test func whatTheEnvironmentLacks() throws {
        let client = try HTTPClient()
        defer { client.stop() }
        let text = { (secrets: String, environment: [String: String]) -> String? in
            do throws(SinkError) {
                _ = try Self.made(client, secrets, environment)
                return nil
            } catch { return error.description }
        }
        let secret = #"["env:PATHMIRROR_SINK_S"]"#
        #expect(text(secret, ["PATHMIRROR_SINK_S": Self.secret]) == nil)
        #expect(text(secret, [:])?.contains("PATHMIRROR_SINK_S") == true)
        let bad = text(secret, ["PATHMIRROR_SINK_S": "hunter2"])
        #expect(bad?.contains("env:PATHMIRROR_SINK_S is not a secret") == true && bad?.contains("hunter2") == false)
        let header = secret + #","headers":{"X-A":"env:PATHMIRROR_SINK_H"}"#
        let broken = text(header, ["PATHMIRROR_SINK_S": Self.secret, "PATHMIRROR_SINK_H": "hunter2\r\nb"])
        #expect(broken?.contains("env:PATHMIRROR_SINK_H") == true && broken?.contains("hunter2") == false)
    }

    private static func made(
        _ client: HTTPClient, _ secrets: String, _ environment: [String: String]
    ) throws(SinkError) -> WebhookSink? {
        var problems: [DefinitionError.Problem] = []
        let text = #"{"url":"https://a.example/","secrets":\#(secrets)}"#
        guard let value = try? SourceText.read(Array(text.utf8)),
            let definition = WebhookDefinition.read(value, problems: &problems)
        else {
            Issue.record("\(problems)")
            return nil
        }
        return try WebhookSink(definition, exceptions: .init(), client: client, environment: { environment[$0] })
    }

    @Test func stopping() throws {
        let arrived = Condition(0)
        let server = try EndpointServer { _, _ in arrived.broadcast { $0 += 1 } }
        let client = try HTTPClient()
        defer { client.stop() }
        let sink = try Self.sink(client, server.url("/"), #","timeout":"1m""#)
        let ended = Condition<[[SinkOutcome]]>([])
        for seq in 1...3 as ClosedRange<Int64> {
            sink.deliver([.sample(seq)]) { outcomes in ended.broadcast { $0.append(outcomes) } }
        }
        #expect(arrived.wait(milliseconds: 30_000) { $0 == 3 ? true : nil } == true)
        sink.stop()
        let outcomes = ended.wait(milliseconds: 30_000) { $0.count == 3 ? $0 : nil }
        #expect(outcomes == Array(repeating: [Self.failed("The request was cancelled.")], count: 3))
        #expect(sink.results(of: [.sample(4)]) == [.notSent])
        #expect(arrived.withLock { $0 } == 3)
    }

    /// Checks that each delivery has exactly one outcome if the sink is stopped at any moment.
    @Test func stoppingWhileOthersDeliver() throws {
        let server = try EndpointServer()
        let client = try HTTPClient()
        defer { client.stop() }
        for round in 0..<20 {
            let sink = try Self.sink(client, server.url("/"))
            let ended = Condition<[Int64: Int]>([:])
            let deliverer = Thread(name: "deliverer") {
                for seq in 0..<20 as Range<Int64> {
                    sink.deliver([.sample(seq)]) { _ in ended.broadcast { $0[seq, default: 0] += 1 } }
                }
            }
            _ = ended.wait(milliseconds: 30_000) { $0.count >= round ? true : nil }
            sink.stop()
            deliverer.join()
            #expect(ended.wait(milliseconds: 30_000) { $0.count == 20 ? true : nil } == true)
            #expect(ended.withLock { $0.values.allSatisfy { $0 == 1 } })
        }
    }
}
