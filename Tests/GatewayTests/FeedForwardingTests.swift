import Feeds
import HTTPClient
import HTTPServer
import Runtime
import Testing

@testable import Gateway

/// Checks that forwarded pulls that wait do not delay acknowledgements, and that pulls beyond the limit are answered
/// immediately.
@Suite struct FeedForwardingTests {
    private static func call() throws -> FeedCall {
        let request = try TestRequest.make("POST", "/.feeds/f/pull?ns=test")
        let client = try #require(IPAddress("127.0.0.1"))
        return FeedCall(request, FeedName(namespace: "test", name: "f"), .any, client: client)
    }

    /// A stand-in for the gateway that runs the feed. Holds pulls that wait, and answers all other requests.
    private final class Owner: Sendable {
        private final class Handler: HTTPLoopHandler {
            let seen: Condition<[String]>
            init(_ seen: Condition<[String]>) { self.seen = seen }

            func requestReceived(_ request: HTTPRequest, _ exchange: HTTPExchange) {
                let body = String(decoding: request.body, as: UTF8.self)
                seen.broadcast { $0.append(body) }
                guard !body.contains("\"wait_ms\":60000") else { return }
                let hasMessages = body.contains("\"consumer\":\"lucky\"")
                let answer = hasMessages ? #"{"messages":[{"id":"test:1:0"}]}"# : #"{"messages":[]}"#
                exchange.respond(status: 200, body: Array(answer.utf8))
            }

            func loopWillDrain() {}
            func loopWillStop() {}
        }

        private let server: HTTPServer
        let seen = Condition<[String]>([])

        init() throws {
            let seen = seen
            server = try HTTPServer(settings: HTTPServerSettings()) { _ in Handler(seen) }
            try server.start()
        }

        var peer: FeedPeer {
            FeedPeer(address: "http://127.0.0.1:\(server.boundAddresses.first?.port ?? 0)", key: Secret([1]))
        }

        deinit { server.stop(deadlineMilliseconds: 0) }
    }

    private static func clients() throws -> FeedClients {
        var settings = HTTPClient.Settings()
        settings.maxConnections = 1
        return try FeedClients(prompt: settings, waiting: settings)
    }

    private static func answer(
        _ forwarding: FeedForwarding, _ owner: Owner, _ body: String, isPull: Bool, wait: Milliseconds
    ) throws -> FeedAnswer? {
        let answers = Condition<Result<FeedAnswer, HTTPClientError>?>(nil)
        forwarding.send(
            try call(), isPull ? "pull" : "ack", Array(body.utf8), to: owner.peer, wait: wait
        ) { result in
            answers.broadcast { $0 = result }
        }
        return try? answers.wait(milliseconds: 30_000) { $0 }?.get()
    }

    @Test func aPullWithoutASeatDoesNotWait() throws {
        let owner = try Owner()
        let clients = try Self.clients()
        defer { clients.stop() }
        let forwarding = FeedForwarding(clients, ForwardingIdentity())
        let waiting = #"{"wait_ms":60000,"consumer":"c"}"#
        let first = forwarding.send(
            try Self.call(), "pull", Array(waiting.utf8), to: owner.peer, wait: 60_000
        ) { _ in }
        #expect(owner.seen.wait(milliseconds: 30_000) { $0.count == 1 ? true : nil } == true)
        let refused = try #require(try Self.answer(forwarding, owner, waiting, isPull: true, wait: 60_000))
        #expect(refused.status == 429 && refused.retryAfter == 1)
        // A pull beyond the limit still returns available messages.
        let lucky = #"{"consumer":"lucky","wait_ms":60000,"max":3}"#
        let served = try #require(try Self.answer(forwarding, owner, lucky, isPull: true, wait: 60_000))
        #expect(served.status == 200 && String(decoding: served.body, as: UTF8.self).contains("test:1:0"))
        #expect(owner.seen.withLock { $0.last } == #"{"wait_ms":0,"consumer":"lucky","max":3}"#)
        let acknowledged = try #require(
            try Self.answer(forwarding, owner, #"{"ids":["test:1:0"]}"#, isPull: false, wait: 0))
        #expect(acknowledged.status == 200)
        // The slot is free once the pull has ended.
        first.cancel()
        let second = forwarding.send(
            try Self.call(), "pull", Array(waiting.utf8), to: owner.peer, wait: 60_000
        ) { _ in }
        second.cancel()
    }

    @Test func aBodyWithoutTheTimeToWait() {
        let bodies = [
            (#"{"wait_ms":5}"#, #"{"wait_ms":0}"#), ("{}", #"{"wait_ms":0}"#), ("", ""),
            (#"{"max":1,"after":"a\"b","wait_ms":7,"x":[1]}"#, #"{"wait_ms":0,"max":1,"after":"a\"b","x":[1]}"#),
        ]
        for (body, expected) in bodies {
            #expect(String(decoding: FeedForwarding.withoutWaiting(Array(body.utf8)), as: UTF8.self) == expected)
        }
    }
}
