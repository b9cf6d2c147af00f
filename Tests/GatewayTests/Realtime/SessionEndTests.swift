import Engine
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

@testable import Gateway

/// Tests of how realtime sessions end, over a scripted transport.
@Suite struct SessionEndTests {
    private typealias Client = ScriptedClient

    /// Runs `body` while no write can be committed.
    private func withCommitsHeld(_ bench: SessionBench, _ body: () throws -> Void) throws {
        let connection = try PostgresConnection(bench.url)
        defer { connection.close() }
        try connection.executeScript("begin; lock table pathmirror.node in exclusive mode")
        do {
            try body()
        } catch {
            try connection.executeScript("rollback")
            throw error
        }
        try connection.executeScript("commit")
    }

    private func sessions(_ bench: SessionBench) -> Int { bench.gateway.metrics.sessions.current }

    private static func largeFrom50Rows(_ settings: inout EngineSettings) { settings.largeWriteRows = 50 }

    // MARK: Closing

    @Test func aSessionWithNothingToDoClosesAtOnce() throws {
        try withBench { bench in
            let client = try bench.connect()
            #expect(sessions(bench) == 1)
            _ = try client.on { $0.close() }
            #expect(client.transport.events == [.close])
            #expect(try !client.isOpen)
            #expect(sessions(bench) == 0)
        }
    }

    @Test func closingWaitsForWritesToBeAnswered() throws {
        try withBench { bench in
            let client = try bench.connect()
            var number: Int64 = 0
            try withCommitsHeld(bench) {
                number = try client.ask("p", #"{"p":"/a","d":1}"#)
                _ = try client.on { $0.close() }
                // The session accepts no more requests.
                #expect(try client.send(client.request("p", #"{"p":"/b","d":1}"#).text))
                #expect(try client.send("nonsense"))
                #expect(!client.transport.isClosed)
            }
            try client.expect(Client.ok(number))
            #expect(client.transport.waits(for: .close))
            #expect(client.transport.events == [.message(Client.ok(number)), .close])
            #expect(try bench.value("") == #"{"a":1}"#)
        }
    }

    @Test func requestsThatWaitAreNotDoneAfterClosing() throws {
        try withBench { bench in
            let client = try bench.connect()
            _ = try client.on { $0.hold() }
            try client.ask("p", #"{"p":"/a","d":1}"#)
            _ = try client.on { session in
                session.close()
                session.release()
            }
            #expect(client.transport.events == [.close])
            #expect(bench.namespace.snapshot.seq == 0)
        }
    }

    @Test func allSessionsAreClosedTogether() throws {
        try withBench { bench in
            let clients = try (0..<5).map { _ in try bench.connect() }
            for client in clients { try client.ask("o", #"{"p":"/\#(client.id)","d":1}"#, gives: "ok") }
            try bench.on { $0.closeSessions() }
            for client in clients { #expect(client.transport.waits(for: .close)) }
            #expect(sessions(bench) == 0)
            #expect(eventually { bench.namespace.snapshot.root.rowCount == 5 })
        }
    }

    // MARK: Losing the connection

    /// Checks that a write in flight is committed even if its client disconnects and cannot be answered.
    @Test func aWriteContinuesWithoutItsClient() throws {
        try withBench { bench in
            let client = try bench.connect()
            try withCommitsHeld(bench) {
                try client.ask("p", #"{"p":"/a","d":1}"#)
                try client.disconnect()
            }
            #expect(eventually { (try? bench.value("a")) == "1" })
            try bench.settle()
            #expect(client.transport.messages.isEmpty)
        }
    }

    /// Checks that a session's end does not overtake the session's own large write, although writes of other clients
    /// may.
    @Test func theEndFollowsALargeWrite() throws {
        try withBench(engine: Self.largeFrom50Rows) { bench in
            let client = try bench.connect()
            try client.ask("o", #"{"p":"/a","d":null}"#, gives: "ok")
            let large = "{\((0..<500).map { #""k\#($0)":1"# }.joined(separator: ","))}"
            try client.ask("p", #"{"p":"/a","d":\#(large)}"#)
            try client.disconnect()
            #expect(eventually { (try? bench.isAtRest) == true })
            #expect(try bench.value("a") == "null")
            #expect(bench.namespace.snapshot.seq == 2)
        }
    }

    @Test func requestsAfterALargeWriteWait() throws {
        try withBench(engine: Self.largeFrom50Rows) { bench in
            let client = try bench.connect()
            let large = "{\((0..<500).map { #""k\#($0)":1"# }.joined(separator: ","))}"
            let numbers = try client.askTogether([
                ("p", #"{"p":"/a","d":\#(large)}"#), ("p", #"{"p":"/a/k0","d":2}"#), ("g", #"{"p":"/a/k0"}"#),
            ])
            try client.expect(Client.ok(numbers[0]), Client.ok(numbers[1]), Client.ok(numbers[2], "2"))
        }
    }

    // MARK: Silence

    @Test func silentClientsAreAskedAndThenClosed() throws {
        try withBench {
            $0.sessionTimeoutMilliseconds = 60_000
        } _: { bench in
            let client = try bench.connect()
            try client.ask("o", #"{"p":"/a","d":1}"#, gives: "ok")
            let now = Clock.monotonicMilliseconds
            _ = try client.on { $0.lastHeard = now - 25_000 }
            #expect(client.transport.waits(for: .ping))
            #expect(try client.isOpen && client.transport.ticks > 0)
            _ = try client.on { $0.lastHeard = now - 61_000 }
            #expect(client.transport.waits(for: .abandon))
            #expect(eventually { (try? bench.value("a")) == "1" })
            #expect(try !client.isOpen)
        }
    }

    /// Checks that a client that only answers pings is disconnected: browsers answer pings for suspended pages.
    @Test func clientsThatOnlyAnswerPingsAreClosed() throws {
        try withBench {
            $0.keepAliveTimeoutMilliseconds = 120_000
        } _: { bench in
            let client = try bench.connect()
            let now = Clock.monotonicMilliseconds
            _ = try client.on { $0.lastSaid = now - 121_000 }
            #expect(client.transport.waits(for: .abandon))
            #expect(eventually { sessions(bench) == 0 })
        }
    }

    @Test func manySessionsComeAndGo() throws {
        try withBench { bench in
            for round in 0..<20 {
                let clients = try (0..<10).map { _ in try bench.connect() }
                for client in clients {
                    try client.ask("q", #"{"p":"/shared","h":""}"#)
                    try client.ask("o", #"{"p":"/n","d":{".sv":{"increment":1}}}"#)
                }
                for client in clients.shuffled() { try client.disconnect() }
                let expected = (round + 1) * 10
                #expect(eventually { (try? bench.value("n")) == "\(expected)" })
            }
            #expect(eventually { bench.gateway.metrics.listens.current == 0 && sessions(bench) == 0 })
            #expect(eventually { (try? bench.savedSessions()) == 0 })
            #expect(bench.gateway.metrics.sessionsOpened.current == 200)
        }
    }
}
