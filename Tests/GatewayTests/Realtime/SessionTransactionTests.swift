import Engine
import Rules
import Runtime
import TestSupport
import Testing
import Tree

@testable import Gateway

/// Tests of conditional writes of realtime clients, and of the slots of contending clients, over scripted transports.
@Suite struct SessionTransactionTests {
    private typealias Client = ScriptedClient

    private static let stale = #""Transaction hash does not match""#

    private func hash(_ json: String) throws -> String { try JSONParser.parse(json).hash }

    /// The body of a put that states the expected value.
    private func put(_ value: String, over old: String) throws -> String {
        #"{"p":"/n","d":\#(value),"h":"\#(old == "null" ? "" : try hash(old))"}"#
    }

    private func waiting(_ bench: SessionBench) -> Int { bench.gateway.metrics.waitingTransactions.current }

    @Test func aWriteIsDoneWhereTheHashFits() throws {
        try withBench { bench in
            let client = try bench.connect()
            try client.ask("p", put("1", over: "null"), gives: "ok")
            try client.ask("p", put("2", over: "1"), gives: "ok")
            try client.ask("p", put("3", over: "1"), gives: "datastale", Self.stale)
            try client.ask("p", put("3", over: "null"), gives: "datastale", Self.stale)
            try client.ask("p", put("null", over: "2"), gives: "ok")
            #expect(try bench.value("n") == "null")
        }
    }

    @Test func anUpdateMayNameAHashToo() throws {
        try withBench { bench in
            let client = try bench.connect()
            try bench.write("n", #"{"a":1}"#)
            let fits = try hash(#"{"a":1}"#)
            try client.ask("m", #"{"p":"/n","d":{"b":2},"h":"\#(fits)"}"#, gives: "ok")
            try client.ask("m", #"{"p":"/n","d":{"b":3},"h":"\#(fits)"}"#, gives: "datastale", Self.stale)
            #expect(try bench.value("n") == #"{"a":1,"b":2}"#)
        }
    }

    // MARK: Slots

    /// Runs `body` while a refused client holds the slot. Checks that no other client's transaction comes between its
    /// attempts. The slot lasts long, so that only the tested event ends it.
    private func withContention(
        slotMilliseconds: Int = 60_000, rules: String? = nil,
        _ body: (SessionBench, _ first: Client, _ second: Client) throws -> Void
    ) throws {
        try withBench(rules: rules) {
            $0.transactionSlotMilliseconds = numericCast(slotMilliseconds)
        } _: { bench in
            try bench.write("n", "1")
            let (first, second) = (try bench.connect(), try bench.connect())
            // The first client's write was refused, so the client now holds the slot.
            try first.ask("p", put("2", over: "0"), gives: "datastale", Self.stale)
            try body(bench, first, second)
        }
    }

    @Test func theSecondWaitsUntilTheFirstIsDone() throws {
        try withContention { bench, first, second in
            let number = try second.ask("p", put("3", over: "2"))
            #expect(eventually { waiting(bench) == 1 })
            #expect(second.transport.messages.isEmpty)
            try first.ask("p", put("2", over: "1"), gives: "ok")
            try second.expect(Client.ok(number))
            #expect(waiting(bench) == 0)
            #expect(try bench.value("n") == "3")
        }
    }

    @Test func noWaitElsewhere() throws {
        try withContention { bench, _, second in
            try second.ask("p", #"{"p":"/m","d":1,"h":""}"#, gives: "ok")
            // A plain write does not wait either.
            try second.ask("p", #"{"p":"/n","d":7}"#, gives: "ok")
            #expect(waiting(bench) == 0)
        }
    }

    @Test func theHolderKeepsItsSlotWhileItFails() throws {
        try withContention { bench, first, second in
            let number = try second.ask("p", put("9", over: "5"))
            for value in 2...4 {
                try bench.write("n", "\(value)")
                try first.ask("p", put("0", over: "1"), gives: "datastale", Self.stale)
            }
            #expect(waiting(bench) == 1)
            try first.ask("p", put("5", over: "4"), gives: "ok")
            try second.expect(Client.ok(number))
        }
    }

    /// Checks that a later request of a client sends the client's waiting transaction, so the request does not wait.
    @Test func aLaterRequestSendsTheWaitingOne() throws {
        try withContention { bench, first, second in
            let number = try second.ask("p", put("3", over: "1"))
            #expect(eventually { waiting(bench) == 1 })
            let next = try second.ask("g", #"{"p":"/n"}"#)
            try second.expect(Client.ok(number), Client.ok(next, "3"))
            #expect(waiting(bench) == 0)
            try first.ask("p", put("4", over: "3"), gives: "ok")
        }
    }

    @Test func manyRequestsAtOnceDoNotWait() throws {
        try withContention { bench, _, second in
            let numbers = try second.askTogether([("p", try put("3", over: "1")), ("g", #"{"p":"/n"}"#)])
            try second.expect(Client.ok(numbers[0]), Client.ok(numbers[1], "3"))
            #expect(waiting(bench) == 0)
        }
    }

    // MARK: Clients that also write elsewhere

    /// Lets a client be refused so often that its requests are held from then on.
    private func refuse(_ client: Client, _ bench: SessionBench) throws {
        for _ in 0..<TransactionTurns.refusalsBeforeHolding {
            let number = try client.ask("p", put("3", over: "0"))
            #expect(eventually { waiting(bench) == 1 })
            let other = try client.ask("p", #"{"p":"/m","d":1}"#)
            try client.expect(Client.answer(number, "datastale", Self.stale), Client.ok(other))
        }
    }

    @Test func requestsOfARefusedClientWaitForItsSlot() throws {
        try withContention { bench, first, second in
            try refuse(second, bench)
            let answered = second.transport.messages.count
            let number = try second.ask("p", put("3", over: "2"))
            #expect(eventually { waiting(bench) == 1 })
            let others = [
                try second.ask("p", #"{"p":"/m","d":2}"#), try second.ask("g", #"{"p":"/m"}"#),
                try second.ask("p", #"{"p":"/m","d":3}"#),
            ]
            try bench.settle()
            #expect(waiting(bench) == 1)
            #expect(second.transport.messages.count == answered)
            #expect(try bench.value("m") == "1")
            // Other clients do not wait.
            try first.ask("p", #"{"p":"/o","d":1}"#, gives: "ok")
            try first.ask("p", put("2", over: "1"), gives: "ok")
            try second.expect(
                Client.ok(number), Client.ok(others[0]), Client.ok(others[1], "2"), Client.ok(others[2]))
            #expect(waiting(bench) == 0)
            #expect(try bench.value("n") == "3" && bench.value("m") == "3")
            // After a success, the client's requests send the waiting transaction again.
            try first.ask("p", put("9", over: "0"), gives: "datastale", Self.stale)
            let next = try second.ask("p", put("4", over: "3"))
            #expect(eventually { waiting(bench) == 1 })
            let other = try second.ask("p", #"{"p":"/m","d":4}"#)
            try second.expect(Client.ok(next), Client.ok(other))
        }
    }

    @Test func requestsThatComeTogetherAreHeldToo() throws {
        try withContention { bench, first, second in
            try refuse(second, bench)
            let numbers = try second.askTogether([("p", try put("3", over: "2")), ("p", #"{"p":"/m","d":2}"#)])
            #expect(eventually { waiting(bench) == 1 })
            #expect(try bench.value("m") == "1")
            try first.ask("p", put("2", over: "1"), gives: "ok")
            try second.expect(Client.ok(numbers[0]), Client.ok(numbers[1]))
        }
    }

    /// Checks that each request of a client is answered, however often it is refused: slots end.
    @Test func heldRequestsAreAnsweredInTheEnd() throws {
        try withContention(slotMilliseconds: 50) { _, _, second in
            for _ in 0..<TransactionTurns.refusalsBeforeHolding * 3 {
                let number = try second.ask("p", put("3", over: "0"))
                let other = try second.ask("p", #"{"p":"/m","d":1}"#)
                try second.expect(Client.answer(number, "datastale", Self.stale), Client.ok(other))
            }
        }
    }

    /// Checks that a waiting transaction of a disconnected client is dropped, and that the client's later writes are
    /// executed.
    @Test func heldWritesOfClosedSessionsAreDone() throws {
        try withContention { bench, first, second in
            try refuse(second, bench)
            _ = try second.ask("p", put("3", over: "1"))
            #expect(eventually { waiting(bench) == 1 })
            // A second transaction, which would wait as well, and a write after it.
            _ = try second.ask("p", put("4", over: "1"))
            _ = try second.ask("p", #"{"p":"/m","d":"gone"}"#)
            try second.disconnect()
            #expect(waiting(bench) == 0)
            #expect(eventually { (try? bench.value("m")) == #""gone""# })
            try first.ask("p", put("2", over: "1"), gives: "ok")
        }
    }

    @Test func heldRequestsAreDoneWhenTheSessionCloses() throws {
        try withContention { bench, _, second in
            try refuse(second, bench)
            let number = try second.ask("p", put("3", over: "1"))
            #expect(eventually { waiting(bench) == 1 })
            let other = try second.ask("p", #"{"p":"/m","d":"closed"}"#)
            _ = try second.on { $0.close() }
            try second.expect(Client.ok(number), Client.ok(other))
            #expect(second.transport.waits(for: .close))
        }
    }

    /// Checks that requests beyond the limit of held requests cause the waiting transaction to be sent.
    @Test func heldRequestsTakeNoMoreThanTheirShare() throws {
        try withBench {
            $0.transactionSlotMilliseconds = 60_000
            $0.maxQueuedRequests = 3
        } _: { bench in
            try bench.write("n", "1")
            let (first, second) = (try bench.connect(), try bench.connect())
            try first.ask("p", put("2", over: "0"), gives: "datastale", Self.stale)
            try refuse(second, bench)
            let number = try second.ask("p", put("3", over: "1"))
            #expect(eventually { waiting(bench) == 1 })
            let others = try (0..<4).map { try second.ask("p", #"{"p":"/m","d":\#($0)}"#) }
            for each in [number] + others { try second.expect(Client.ok(each)) }
            #expect(waiting(bench) == 0)
        }
    }

    @Test func aSlotEndsWithItsSession() throws {
        try withContention { bench, first, second in
            let number = try second.ask("p", put("3", over: "1"))
            #expect(eventually { waiting(bench) == 1 })
            try first.disconnect()
            try second.expect(Client.ok(number))
        }
    }

    @Test func aSlotEndsWhenItsClientDoesNothing() throws {
        try withContention(slotMilliseconds: 50) { _, _, second in
            let number = try second.ask("p", put("3", over: "1"))
            try second.expect(Client.ok(number))
        }
    }

    @Test func waitingWritesOfClosedSessionsAreDropped() throws {
        try withContention { bench, first, second in
            try second.ask("p", put("3", over: "1"))
            #expect(eventually { waiting(bench) == 1 })
            try second.disconnect()
            #expect(waiting(bench) == 0)
            try first.ask("p", put("2", over: "1"), gives: "ok")
            #expect(try bench.value("n") == "2")
        }
    }

    @Test func whatWaitsIsSentWhenTheSessionCloses() throws {
        try withContention { bench, _, second in
            let number = try second.ask("p", put("3", over: "1"))
            #expect(eventually { waiting(bench) == 1 })
            _ = try second.on { $0.close() }
            try second.expect(Client.ok(number))
            #expect(second.transport.waits(for: .close))
            #expect(second.transport.events == [.message(Client.ok(number)), .close])
        }
    }

    @Test func clientsAreServedInTheirOrder() throws {
        try withContention { bench, first, second in
            let others = [second] + (try (0..<3).map { _ in try bench.connect() })
            var numbers: [Int64] = []
            for (index, client) in others.enumerated() {
                numbers.append(try client.ask("p", put("\(index + 3)", over: "\(index + 2)")))
                #expect(eventually { waiting(bench) == index + 1 })
            }
            try first.ask("p", put("2", over: "1"), gives: "ok")
            for (client, number) in zip(others, numbers) { try client.expect(Client.ok(number)) }
            #expect(try bench.value("n") == "6")
        }
    }

    /// Checks that a client whose write the rules would deny gets no slot, so no other client waits for it.
    @Test func unauthorizedWritersGetNoSlot() throws {
        let rules = #"{"rules":{"n":{".read":true,".write":"auth != null"}}}"#
        try withBench(rules: rules) {
            $0.transactionSlotMilliseconds = 60_000
        } _: { bench in
            try bench.write("n", "1")
            let stranger = try bench.connect()
            try stranger.ask("p", put("2", over: "1"), gives: "permission_denied", Client.denied)
            try stranger.ask("p", put("2", over: "0"), gives: "permission_denied", Client.denied)
            let owner = try bench.connect()
            try owner.ask("auth", #"{"cred":"owner"}"#, gives: "ok", #"{"auth":null,"expires":null}"#)
            try owner.ask("p", put("2", over: "1"), gives: "ok")
        }
    }

    @Test func noWaitWhereThatIsTurnedOff() throws {
        try withContention(slotMilliseconds: 0) { bench, _, second in
            try second.ask("p", put("3", over: "1"), gives: "ok")
            #expect(waiting(bench) == 0)
        }
    }

    // MARK: Other gateways

    private func key(_ bench: SessionBench) -> TransactionKey {
        TransactionKey(namespace: bench.namespace.key, path: Path(splitting: "n"))
    }

    private func hears(_ kind: TransactionTurns.Notice, from gateway: String, _ bench: SessionBench) throws {
        let notice = SlotNotice(kind, key(bench))
        try bench.on { hub in
            hub.follow(hub.context.transactionQueues.noticed(notice, from: gateway), at: notice.key)
        }
    }

    @Test func anotherGatewaysClientGoesFirst() throws {
        try withBench {
            $0.transactionSlotMilliseconds = 60_000
        } _: { bench in
            try bench.write("n", "1")
            let client = try bench.connect()
            try hears(.asks, from: "other", bench)
            let number = try client.ask("p", put("2", over: "1"))
            #expect(eventually { waiting(bench) == 1 })
            // A message of a third gateway has no effect.
            try hears(.isDone, from: "third", bench)
            try bench.settle()
            #expect(waiting(bench) == 1)
            try hears(.isDone, from: "other", bench)
            try client.expect(Client.ok(number))
        }
    }

    /// Checks that a lost message about the end of another gateway's slot delays clients only for a limited time.
    @Test func aGatewayThatSaysNothingMoreIsNotWaitedForLong() throws {
        try withBench {
            $0.transactionSlotMilliseconds = 50
        } _: { bench in
            try bench.write("n", "1")
            let client = try bench.connect()
            try hears(.asks, from: "other", bench)
            let number = try client.ask("p", put("2", over: "1"))
            try client.expect(Client.ok(number))
        }
    }

    /// Checks that all additions count and that no client is refused forever if clients of two gateways add to a number
    /// by transactions.
    @Test func clientsOfTwoGatewaysAdd() throws {
        try withDatabase { url in
            let engines = try (0..<2).map { _ in
                try TestEngine(url) { settings, _ in
                    settings.pollMilliseconds = 20
                    settings.defaultRules = RulesVersion(seq: 0, set: .allowAll, enforcesIndexes: false)
                }
            }
            defer { for engine in engines { engine.stop() } }
            let benches = try engines.map { try SessionBench(url, $0) { $0.transactionSlotMilliseconds = 200 } }
            defer { for bench in benches { bench.stop() } }
            let failures = MutexBox<[String]>([])
            let threads = benches.map { bench in
                Thread(name: "adding") {
                    do { try add(20, bench) } catch { failures.withLock { $0.append("\(error)") } }
                }
            }
            for thread in threads { thread.join() }
            #expect(failures.withLock { $0 } == [])
            #expect(eventually { (try? benches[0].value("n")) == "40" && (try? benches[1].value("n")) == "40" })
        }
    }

    /// Adds one `count` times, as the SDK does: reads the value, and writes the sum if the value is unchanged.
    private func add(_ count: Int, _ bench: SessionBench) throws {
        let client = try bench.connect()
        for _ in 0..<count {
            for attempt in 1... {
                try #require(attempt < 200, "never let in")
                let value = try bench.value("n")
                let next = value == "null" ? "1" : "\((Int(value) ?? 0) + 1)"
                let number = try client.ask("p", put(next, over: value))
                if try client.next() == Client.ok(number) { break }
            }
        }
    }
}
