import HTTPServer
import LogStore
import Runtime
import TestSupport
import Testing
import Tree

@testable import Feeds

/// Checks that a changed definition of a webhook neither stalls nor repeats deliveries in flight, and applies from the
/// next attempt on.
@Suite struct DefinitionChangeTests {
    /// Requests that the endpoint has not answered yet.
    private typealias Held = Condition<[ExchangeReference]>

    private static func definition(
        _ server: EndpointServer, _ number: Int, path: String = "/a/{k}", rest: String = ""
    ) -> String {
        #"{"path": "\#(path)", "start": "beginning", "max_attempts": 5, "backoff": {"first": "1ms", "max": "1ms"}\#(rest), "webhook": {"url": "\#(server.url("/hook"))", "secrets": ["whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"], "timeout": "30s", "concurrency": 8, "headers": {"Authorization": "\#(number)"}}}"#
    }

    private static func value(_ arrival: EndpointServer.Arrival) -> String {
        String(decoding: arrival.body, as: UTF8.self)
    }

    /// Starts a server that holds requests with the key `slow` until `release`.
    private static func holdingServer(_ held: Held) throws -> EndpointServer {
        try EndpointServer { number, exchange in
            if number == 0 { return held.broadcast { $0.append(exchange.reference) } }
            exchange.respond(status: 200)
        }
    }

    private func ids(_ server: EndpointServer) -> [String] { server.arrived.compactMap(\.id) }

    /// Applies another definition, and waits until deliveries use it.
    private func redefine(
        _ bench: FeedBench, _ service: FeedService, _ server: EndpointServer, _ number: Int, rest: String = ""
    ) throws {
        let applied = try bench.apply("f", Self.definition(server, number, rest: rest))
        // As the gateway that serves an administrator does: no message is delivered by the former definition any more.
        if let change = applied.change { service.moved(FeedName(namespace: "test", name: "f"), change) }
        let seq = try bench.set("/a/probe", .int(Int64(number)))
        #expect(
            eventually {
                server.arrived.contains { $0.authorization == "\(number)" && $0.id == "test:\(seq):0" }
            })
    }

    @Test func aResponseToAFormerDefinitionCounts() throws {
        try FeedBench.with { bench in
            let held = Held([])
            let server = try Self.holdingServer(held)
            try bench.serving { service in
                try bench.apply("f", Self.definition(server, 1))
                try bench.set("/a/slow", .int(1))
                let reference = try #require(held.wait(milliseconds: 60_000) { $0.first })
                try bench.set("/a/slow", .int(2))
                // Twice, so that the delivery belongs to the run before the last.
                try redefine(bench, service, server, 2)
                try redefine(bench, service, server, 3)
                #expect(ids(server) == ["test:1:0", "test:3:0", "test:4:0"])
                reference.perform { $0.respond(status: 200) }
                #expect(eventually { server.arrived.count == 4 })
                #expect(eventually { (try? bench.status("f")).map { $0.seq >= $0.head } ?? false })
                #expect(ids(server) == ["test:1:0", "test:3:0", "test:4:0", "test:2:0"])
                #expect(server.arrived.map(\.authorization) == ["1", "2", "3", "3"])
            }
        }
    }

    @Test func aFailureUnderAFormerDefinitionIsAnAttempt() throws {
        try FeedBench.with { bench in
            let held = Held([])
            let server = try Self.holdingServer(held)
            try bench.serving { service in
                try bench.apply("f", Self.definition(server, 1))
                try bench.set("/a/slow", .int(1))
                let reference = try #require(held.wait(milliseconds: 60_000) { $0.first })
                try redefine(bench, service, server, 2)
                reference.perform { $0.respond(status: 500) }
                #expect(eventually { ids(server) == ["test:1:0", "test:2:0", "test:1:0"] })
                let last = try #require(server.arrived.last)
                #expect(last.authorization == "2")
                #expect(Self.value(last).contains(#""attempt":2"#))
            }
        }
    }

    /// Checks that each message arrives once, and in order within its key, whenever a definition changes.
    @Test func changesRepeatNothing() throws {
        try FeedBench.with { bench in
            let server = try EndpointServer()
            try bench.serving { service in
                try bench.apply("f", Self.definition(server, 0))
                var count = 0
                for number in 1...12 {
                    for index in 0..<40 { try bench.set("/a/k\(index % 5)", .int(Int64(number * 100 + index))) }
                    try redefine(bench, service, server, number)
                    count += 41
                }
                #expect(eventually { server.arrived.count >= count })
                #expect(eventually { (try? bench.status("f")).map { $0.seq >= $0.head } ?? false })
                let all = ids(server)
                #expect(all.count == count && Set(all).count == count)
                for key in 0..<5 {
                    let seqs = server.arrived.filter { Self.value($0).contains("/a/k\(key)\"") }.compactMap { arrival in
                        arrival.id.flatMap { FeedPosition(id: $0, in: "test") }?.seq
                    }
                    #expect(seqs == seqs.sorted() && !seqs.isEmpty)
                }
            }
        }
    }

    /// Checks that a response to a message under one path does not count after a change of path, which numbers messages
    /// again.
    @Test func aResponseUnderAnotherNumberingDoesNotCount() throws {
        try FeedBench.with { bench in
            let held = Held([])
            let server = try Self.holdingServer(held)
            try bench.serving { _ in
                try bench.apply("f", Self.definition(server, 1))
                try bench.set("/", try JSONParser.parse(#"{"a":{"k":1},"b":{"k":2}}"#))
                let reference = try #require(held.wait(milliseconds: 60_000) { $0.first })
                try bench.apply("f", Self.definition(server, 2, path: "/b/{k}"))
                reference.perform { $0.respond(status: 200) }
                #expect(eventually { server.arrived.contains { Self.value($0).contains("/b/k") } })
            }
        }
    }

    @Test func aResponseToWhatCameBeforeASeekDoesNotCount() throws {
        try FeedBench.with { bench in
            let held = Held([])
            let server = try Self.holdingServer(held)
            try bench.serving { _ in
                try bench.apply("f", Self.definition(server, 1))
                try bench.set("/a/slow", .int(1))
                let reference = try #require(held.wait(milliseconds: 60_000) { $0.first })
                _ = try bench.administration.seek(bench.name("f"), to: .beginning)
                reference.perform { $0.respond(status: 200) }
                #expect(eventually { ids(server) == ["test:1:0", "test:1:0"] })
                #expect(eventually { (try? bench.status("f")).map { $0.seq >= $0.head } ?? false })
            }
        }
    }
}
