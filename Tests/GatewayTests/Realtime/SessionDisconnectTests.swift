import Engine
import HTTPServer
import Postgres
import Rules
import Runtime
import TestSupport
import Testing
import Tokens
import Tree

@testable import Gateway

/// Tests of onDisconnect operations of realtime clients, on a real engine and database, over a scripted transport.
@Suite struct SessionDisconnectTests {
    private typealias Client = ScriptedClient

    private static let unavailable = #""The service is unavailable. Try again later.""#

    /// An increment by one at a path, which would reveal a second execution.
    private func add(_ path: String) -> String { #"{"p":"\#(path)","d":{".sv":{"increment":1}}}"# }

    private func isEmpty(_ bench: SessionBench) -> Bool { (try? bench.isAtRest) == true }

    // MARK: Requests

    @Test func operationsAreExecutedOnceAtTheEnd() throws {
        try withBench { bench in
            let client = try bench.connect()
            try client.ask("o", add("/count"), gives: "ok")
            try client.ask("om", #"{"p":"/a","d":{"b":1,"c/d":null}}"#, gives: "ok")
            #expect(try bench.value("") == "null")
            #expect(try bench.savedSessions() == 1)
            try client.disconnect()
            #expect(eventually { isEmpty(bench) })
            #expect(try bench.value("") == #"{"a":{"b":1},"count":1}"#)
            // A second end of the session has no effect.
            try client.disconnect()
            try bench.settle()
            #expect(try bench.value("count") == "1")
        }
    }

    @Test func sessionsWithoutRequestsLeaveNothing() throws {
        try withBench { bench in
            let client = try bench.connect()
            try client.ask("p", #"{"p":"/a","d":1}"#, gives: "ok")
            try client.ask("oc", #"{"p":"/a"}"#, gives: "ok")
            #expect(try bench.savedSessions() == 0)
            let seq = bench.namespace.snapshot.seq
            try client.disconnect()
            try bench.settle()
            #expect(bench.namespace.snapshot.seq == seq)
        }
    }

    @Test func whatIsCancelledIsNotExecuted() throws {
        try withBench { bench in
            let client = try bench.connect()
            try client.ask("o", #"{"p":"/a","d":{"b":1,"c":2}}"#, gives: "ok")
            try client.ask("o", #"{"p":"/d","d":3}"#, gives: "ok")
            try client.ask("oc", #"{"p":"/a/b"}"#, gives: "ok")
            try client.disconnect()
            #expect(eventually { isEmpty(bench) })
            #expect(try bench.value("") == #"{"a":{"c":2},"d":3}"#)
        }
    }

    @Test func cancelledOperationsLeaveNothing() throws {
        try withBench { bench in
            let client = try bench.connect()
            try client.ask("o", #"{"p":"/a","d":1}"#, gives: "ok")
            try client.ask("oc", #"{"p":"/"}"#, gives: "ok")
            try client.disconnect()
            #expect(eventually { isEmpty(bench) })
            #expect(try bench.value("") == "null")
        }
    }

    /// Checks that operations use the data at the time of execution: a write made after they were registered is not
    /// undone.
    @Test func operationsAreExecutedOnWhatIsThereThen() throws {
        try withBench { bench in
            let (client, other) = (try bench.connect(), try bench.connect())
            try client.ask("o", add("/n"), gives: "ok")
            try other.ask("p", #"{"p":"/n","d":41}"#, gives: "ok")
            try other.ask("q", #"{"p":"/n","h":"\#(try JSONParser.parse("41").hash)"}"#, gives: "ok", "{}")
            try client.disconnect()
            try other.expect(Client.put("n", "42"))
        }
    }

    // MARK: Rules

    @Test func theRulesJudgeAtOnce() throws {
        let rules = #"{"rules":{"a":{".write":"newData.val() < 10"}}}"#
        try withBench(rules: rules) { bench in
            let client = try bench.connect()
            try client.ask("o", #"{"p":"/b","d":1}"#, gives: "permission_denied", Client.denied)
            try client.ask("o", #"{"p":"/a","d":11}"#, gives: "permission_denied", Client.denied)
            try client.ask("om", #"{"p":"/","d":{"a":1,"b":1}}"#, gives: "permission_denied", Client.denied)
            #expect(try bench.savedSessions() == 0)
            try client.ask("o", #"{"p":"/a","d":9}"#, gives: "ok")
            // Canceling needs no permission.
            try client.ask("oc", #"{"p":"/b"}"#, gives: "ok")
            try client.disconnect()
            #expect(eventually { isEmpty(bench) })
            #expect(try bench.value("") == #"{"a":9}"#)
        }
    }

    /// Checks that the rules are evaluated again when the operations are executed, with the rules, data and login of
    /// that time.
    @Test func theRulesJudgeAgainAtTheEnd() throws {
        let rules =
            #"{"rules":{"open":{".write":true},"own":{".write":"auth.uid == 'ann'"},"gate":{".write":"root.child('isOpen').val() != false"}}}"#
        try withBench(rules: rules) { bench in
            let client = try bench.connect()
            try client.ask("auth", #"{"cred":"\#(JWT.mintUnsigned(["sub": "ann"]))"}"#)
            _ = try client.next()
            for path in ["open", "own", "gate"] { try client.ask("o", add("/\(path)"), gives: "ok") }
            try bench.write("isOpen", "false")
            try client.ask("unauth", gives: "ok", #""unauthenticated""#)
            try client.disconnect()
            #expect(eventually { isEmpty(bench) })
            #expect(try bench.value("") == #"{"isOpen":false,"open":1}"#)
        }
    }

    // MARK: Bounds

    @Test func operationsAreBounded() throws {
        try withBench {
            $0.maxDisconnectOperations = 2
        } _: { bench in
            let client = try bench.connect()
            try client.ask("o", #"{"p":"/a","d":1}"#, gives: "ok")
            try client.ask("o", #"{"p":"/b","d":1}"#, gives: "ok")
            try client.ask("o", #"{"p":"/c","d":1}"#, gives: "too_big", #""Too many onDisconnect operations""#)
            // An operation that replaces another does not increase the count.
            try client.ask("o", #"{"p":"/b","d":2}"#, gives: "ok")
            try client.disconnect()
            #expect(eventually { isEmpty(bench) })
            #expect(try bench.value("") == #"{"a":1,"b":2}"#)
        }
    }

    /// Checks that the limit counts only the present operations, not all operations that the session has ever had.
    @Test func theirSizeIsBounded() throws {
        try withBench {
            $0.maxMessageBytes = 2_000
        } _: { bench in
            let client = try bench.connect()
            let text = String(repeating: "x", count: 700)
            for _ in 0..<10 { try client.ask("o", #"{"p":"/a","d":"\#(text)"}"#, gives: "ok") }
            try client.ask("o", #"{"p":"/b","d":"\#(text)"}"#, gives: "ok")
            try client.ask(
                "o", #"{"p":"/c","d":"\#(text)"}"#, gives: "too_big", #""The onDisconnect operations are too large""#)
            try client.ask("oc", #"{"p":"/a"}"#, gives: "ok")
            try client.ask("o", #"{"p":"/c","d":"\#(text)"}"#, gives: "ok")
        }
    }

    @Test func theirMemoryIsGivenBack() throws {
        let memory = MemoryBudget(bytes: 1 << 20)
        try withBench {
            $0.memory = memory
        } _: { bench in
            let client = try bench.connect()
            try client.ask("o", #"{"p":"/a","d":"\#(String(repeating: "x", count: 500))"}"#, gives: "ok")
            #expect(memory.taken >= 500)
            try client.ask("oc", #"{"p":"/a"}"#, gives: "ok")
            #expect(memory.taken == 0)
        }
    }

    /// Checks that large operations, which a worker evaluates, keep their order: later requests wait.
    @Test func largeOperationsKeepTheirOrder() throws {
        try withBench {
            $0.heavyRows = 10
        } _: { bench in
            let client = try bench.connect()
            let large = "{\((0..<100).map { #""k\#($0)":\#($0)"# }.joined(separator: ","))}"
            let numbers = try client.askTogether([
                ("o", #"{"p":"/a","d":1}"#), ("o", #"{"p":"/b","d":\#(large)}"#), ("oc", #"{"p":"/b/k0"}"#),
                ("g", #"{"p":"/b"}"#),
            ])
            var answers: [String] = []
            for _ in 0..<4 { answers.append(try client.next()) }
            #expect(answers.filter { $0 != Client.ok(numbers[3], "null") } == numbers[..<3].map { Client.ok($0) })
            try client.disconnect()
            #expect(eventually { isEmpty(bench) })
            #expect(try bench.value("a") == "1" && bench.namespace.snapshot.root[Path(splitting: "b")].rowCount == 99)
        }
    }

    // MARK: Saving

    /// Runs `body` while no operation can be saved. Requests in `body` wait.
    private func withSavesHeld(_ bench: SessionBench, _ body: () throws -> Void) throws {
        let connection = try PostgresConnection(bench.url)
        defer { connection.close() }
        try connection.executeScript("begin; lock table pathmirror.session in exclusive mode")
        do {
            try body()
        } catch {
            try connection.executeScript("rollback")
            throw error
        }
        try connection.executeScript("commit")
    }

    /// Checks that a write is committed only after the operations before it are saved: otherwise the death of a gateway
    /// would leave a client present that had registered its removal.
    @Test func writesWaitForOperationsBeforeThem() throws {
        try withBench { bench in
            let client = try bench.connect()
            try client.ask("o", #"{"p":"/online","d":null}"#, gives: "ok")
            var numbers: [Int64] = []
            try withSavesHeld(bench) {
                numbers = try client.askTogether([
                    ("o", add("/n")), ("p", #"{"p":"/online","d":true}"#), ("s", "{}"),
                ])
                try bench.settle()
                #expect(try bench.value("online") == "null")
                #expect(client.transport.messages.count == 1)
            }
            // A request that does not write waits its turn after an earlier write, but is answered before that write is
            // committed.
            for number in [numbers[0], numbers[2], numbers[1]] { try client.expect(Client.ok(number)) }
            #expect(try bench.value("online") == "true")
        }
    }

    /// Checks that requests that arrive during a save are saved together by the next save.
    @Test func whatComesMeanwhileIsSavedTogether() throws {
        try withBench { bench in
            let client = try bench.connect()
            var numbers = [try client.ask("o", #"{"p":"/a0","d":1}"#)]
            try client.expect(Client.ok(numbers[0]))
            try withSavesHeld(bench) {
                numbers = try client.askTogether((1...20).map { ("o", #"{"p":"/a\#($0)","d":1}"#) })
                try bench.settle()
                #expect(client.transport.messages.count == 1)
            }
            for number in numbers { try client.expect(Client.ok(number)) }
            let connection = try PostgresConnection(bench.url)
            defer { connection.close() }
            let saves = try connection.execute("select save from pathmirror.session").int64(0, 0)
            #expect(saves == 3)
        }
    }

    @Test func aSessionMayEndWhileItIsSaved() throws {
        try withBench { bench in
            let client = try bench.connect()
            try client.ask("o", add("/n"), gives: "ok")
            try withSavesHeld(bench) {
                try client.ask("o", add("/m"))
                try bench.settle()
                try client.disconnect()
            }
            #expect(eventually { isEmpty(bench) })
            #expect(eventually { (try? bench.value("")) == #"{"m":1,"n":1}"# })
        }
    }

    @Test func closingWaitsForASave() throws {
        try withBench { bench in
            let client = try bench.connect()
            try client.ask("o", add("/n"), gives: "ok")
            var number: Int64 = 0
            try withSavesHeld(bench) {
                number = try client.ask("o", add("/m"))
                _ = try client.on { $0.close() }
                try bench.settle()
                #expect(!client.transport.isClosed)
            }
            try client.expect(Client.ok(number))
            #expect(client.transport.waits(for: .close))
            #expect(eventually { (try? bench.value("")) == #"{"m":1,"n":1}"# && isEmpty(bench) })
        }
    }

    /// Checks that operations that cannot be saved are refused, and that earlier ones remain, if the database becomes
    /// unavailable.
    @Test func whatCanNotBeSavedIsRefused() throws {
        try withDatabase { url in
            let proxy = try CuttingProxy(url)
            defer { proxy.stop() }
            let engine = try TestEngine(proxy.url) { settings, _ in
                settings.pollMilliseconds = 20
                settings.defaultRules = RulesVersion(seq: 0, set: .allowAll, enforcesIndexes: false)
            }
            defer { engine.stop() }
            let bench = try SessionBench(url, engine)
            defer { bench.stop() }
            let client = try bench.connect()
            try client.ask("o", add("/n"), gives: "ok")
            proxy.setDown(true)
            try client.ask("o", add("/m"), gives: "unavailable", Self.unavailable)
            try client.ask("oc", #"{"p":"/n"}"#, gives: "unavailable", Self.unavailable)
            proxy.setDown(false)
            #expect(eventually { bench.engine.health.isUp })
            try client.disconnect()
            #expect(eventually { isEmpty(bench) })
            #expect(eventually { (try? bench.value("")) == #"{"n":1}"# })
        }
    }

    // MARK: Other gateways

    private func quick(_ settings: inout EngineSettings) {
        settings.heartbeatMilliseconds = 20
        settings.leaseExpiryMilliseconds = 400
    }

    /// Checks that sessions are closed and saved operations are executed once if other gateways end the gateway's
    /// lease.
    @Test func aLostLeaseClosesSessions() throws {
        try withBench(engine: quick) { bench in
            let (client, other) = (try bench.connect(), try bench.connect())
            try client.ask("o", add("/n"), gives: "ok")
            try bench.execute("delete from pathmirror.gateway")
            #expect(client.transport.waits(for: .close) && other.transport.waits(for: .close))
            #expect(eventually { isEmpty(bench) && (try? bench.value("n")) == "1" })
            // A client that reconnects gets a session under the new lease.
            let again = try bench.connect()
            try again.ask("o", add("/n"), gives: "ok")
            try again.disconnect()
            #expect(eventually { (try? bench.value("n")) == "2" })
        }
    }

    @Test func aSessionWhoseRowIsGoneIsClosed() throws {
        try withBench { bench in
            let client = try bench.connect()
            try client.ask("o", add("/n"), gives: "ok")
            // Another gateway has executed the operation.
            try bench.execute("delete from pathmirror.session")
            try client.ask("o", add("/m"))
            #expect(client.transport.waits(for: .close))
            #expect(client.transport.messages.count == 1)
            #expect(try !client.isOpen)
            try bench.settle()
            #expect(try bench.value("") == "null" && bench.savedSessions() == 0)
        }
    }

    // MARK: Clients that reconnect

    /// Checks that the earlier session of a client ends first, so that its operations cannot undo writes of the new
    /// session.
    @Test func anEarlierSessionEndsFirst() throws {
        try withBench { bench in
            let (old, new, other) = (try bench.connect(), try bench.connect(), try bench.connect())
            try old.ask("o", #"{"p":"/online","d":null}"#, gives: "ok")
            try old.ask("p", #"{"p":"/online","d":"old"}"#, gives: "ok")
            let known = try JSONParser.parse(#""old""#).hash
            try other.ask("q", #"{"p":"/online","h":"\#(known)"}"#, gives: "ok", "{}")
            try bench.on { [old, new] hub in
                if let session = hub.sessions[new.id] { hub.endEarlier(old.id, before: session) }
            }
            try new.ask("p", #"{"p":"/online","d":"new"}"#, gives: "ok")
            try other.expect(Client.put("online", "null"), Client.put("online", #""new""#))
            #expect(old.transport.waits(for: .close))
        }
    }

    @Test func anEarlierSessionOfAnotherGatewayEndsFirst() throws {
        try withDatabase { url in
            let engines = try (0..<2).map { _ in
                try TestEngine(url) { settings, _ in
                    settings.pollMilliseconds = 20
                    settings.defaultRules = RulesVersion(seq: 0, set: .allowAll, enforcesIndexes: false)
                }
            }
            defer { for engine in engines { engine.stop() } }
            let benches = try engines.map { try SessionBench(url, $0) }
            defer { for bench in benches { bench.stop() } }
            let (old, new) = (try benches[0].connect(), try benches[1].connect())
            try old.ask("o", #"{"p":"/online","d":"gone"}"#, gives: "ok")
            try new.ask("q", #"{"p":"/online","h":""}"#, gives: "ok", "{}")
            try benches[1].on { [old, new] hub in
                if let session = hub.sessions[new.id] { hub.endEarlier(old.id, before: session) }
            }
            let number = try new.ask("p", #"{"p":"/online","d":"new"}"#)
            try new.expect(Client.put("online", #""gone""#), Client.put("online", #""new""#), Client.ok(number))
            // The old gateway notices this at its next save, and has nothing to execute.
            try old.ask("o", #"{"p":"/online","d":"twice"}"#)
            #expect(old.transport.waits(for: .close))
            #expect(eventually { isEmpty(benches[0]) })
            #expect(try benches[1].value("online") == #""new""#)
        }
    }

    @Test func anUnknownEarlierSessionDelaysNothing() throws {
        try withBench { bench in
            let client = try bench.connect()
            try bench.on { [client] hub in
                if let session = hub.sessions[client.id] {
                    hub.endEarlier("0123456789abcdef0123456789abcdef", before: session)
                    // A client that names its own session has no effect.
                    hub.endEarlier(client.id, before: session)
                }
            }
            try client.ask("s", gives: "ok")
            #expect(try client.isOpen)
        }
    }
}
