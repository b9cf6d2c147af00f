import Engine
import HTTPServer
import Runtime
import TestSupport
import Testing
import Tree

@testable import Gateway

/// Tests of how a realtime client's requests are accepted, executed and answered, over a scripted transport.
@Suite struct SessionWriteTests {
    private typealias Client = ScriptedClient

    // MARK: Writes

    @Test func writesAreDoneAndAnswered() throws {
        try withBench { bench in
            let client = try bench.connect()
            try client.ask("p", #"{"p":"/a","d":{"b":1,"c":2}}"#, gives: "ok")
            try client.ask("m", #"{"p":"/a","d":{"c":3,"d/e":4}}"#, gives: "ok")
            try client.ask("p", #"{"p":"/a/n","d":{".sv":{"increment":5}}}"#, gives: "ok")
            try client.ask("p", #"{"p":"/a/b","d":null}"#, gives: "ok")
            #expect(try bench.value("a") == #"{"c":3,"d":{"e":4},"n":5}"#)
            try client.ask("g", #"{"p":"/a/n"}"#, gives: "ok", "5")
            #expect(bench.gateway.metrics.writes.current == 4)
        }
    }

    /// Checks that an invalid request is answered with an error and does not end the session.
    @Test func aBadRequestFails() throws {
        try withBench { bench in
            for (action, body, text) in [
                ("p", #"{"p":"/a"}"#, #""Invalid data: d is missing""#),
                ("p", #"{"d":1}"#, #""Invalid path: p must be a string""#),
                ("m", #"{"p":"/a","d":null}"#, #""Invalid data: d must be an object""#),
                ("nonsense", "{}", #""Unknown action""#),
                ("auth", "{}", #""cred must be a string""#),
                ("q", #"{"p":"/a","q":7}"#, #""Invalid query: q must be an object""#),
                ("q", #"{"p":"/a","t":"x"}"#, #""Invalid tag: t must be a whole number""#),
            ] {
                let client = try bench.connect()
                try client.ask(action, body, gives: "failure", text)
                try client.ask("s", gives: "ok")
                #expect(try client.isOpen)
            }
        }
    }

    @Test func unauthorizedWritersAreRefused() throws {
        let rules = #"{"rules":{"a":{".write":true,".validate":"newData.isNumber()"}}}"#
        try withBench(rules: rules) { bench in
            let client = try bench.connect()
            try client.ask("p", #"{"p":"/b","d":1}"#, gives: "permission_denied", Client.denied)
            try client.ask("p", #"{"p":"/a","d":"text"}"#, gives: "permission_denied", Client.denied)
            try client.ask("m", #"{"p":"/","d":{"a":1,"b":2}}"#, gives: "permission_denied", Client.denied)
            try client.ask("p", #"{"p":"/a","d":1}"#, gives: "ok")
            #expect(try bench.value("") == #"{"a":1}"#)
        }
    }

    @Test func smallRequests() throws {
        try withBench { bench in
            let client = try bench.connect()
            try client.ask("s", #"{"c":{"sdk.js.9":1}}"#, gives: "ok")
            try client.ask("appcheck", #"{"token":"x"}"#, gives: "ok")
            try client.ask("unappcheck", gives: "ok")
            try client.ask("echo", #"{"d":{"x":[1,"é"]}}"#, gives: "ok", #"{"x":[1,"é"]}"#)
            #expect(try client.send(#"{"t":"c","d":{"t":"p","d":{}}}"#))
            try client.expect(#"{"t":"c","d":{"t":"o","d":null}}"#)
        }
    }

    // MARK: Order

    /// Checks that a read reflects all writes of the client before it.
    @Test func readsWaitForTheWritesBefore() throws {
        try withBench { bench in
            let client = try bench.connect()
            let numbers = try client.askTogether([
                ("p", #"{"p":"/a","d":1}"#), ("g", #"{"p":"/a"}"#), ("p", #"{"p":"/a","d":2}"#),
                ("q", #"{"p":"/a","h":""}"#),
            ])
            try client.expect(
                Client.ok(numbers[0]), Client.ok(numbers[1], "1"), Client.ok(numbers[2]), Client.put("a", "2"),
                Client.ok(numbers[3], "{}"))
        }
    }

    @Test func manyWritesAreAnsweredInOrder() throws {
        try withBench { bench in
            let client = try bench.connect()
            let add = #"{"p":"/n","d":{".sv":{"increment":1}}}"#
            let numbers = try client.askTogether((0..<300).map { _ in ("p", add) })
            for number in numbers { try client.expect(Client.ok(number)) }
            #expect(try bench.value("n") == "300")
        }
    }

    /// Checks that the answers to writes that were committed together are sent together.
    @Test func answersAreCollected() throws {
        try withBench { bench in
            let client = try bench.connect()
            let numbers = try client.askTogether((0..<50).map { ("p", #"{"p":"/a\#($0)","d":1}"#) })
            for number in numbers { try client.expect(Client.ok(number)) }
            #expect(eventually { client.transport.pieces.reduce(0, +) == 50 })
            #expect(client.transport.pieces.count < 50)
        }
    }

    @Test func requestsWaitWhileTheyAreHeld() throws {
        try withBench { bench in
            let client = try bench.connect()
            _ = try client.on { session in
                session.hold()
                session.hold()
            }
            let numbers = try client.askTogether([("s", "{}"), ("p", #"{"p":"/a","d":1}"#), ("s", "{}")])
            try bench.settle()
            #expect(client.transport.messages.isEmpty)
            _ = try client.on { $0.release() }
            try bench.settle()
            #expect(client.transport.messages.isEmpty && bench.namespace.snapshot.seq == 0)
            _ = try client.on { $0.release() }
            // Only reads wait for a write.
            let answers = Set([try client.next(), try client.next(), try client.next()])
            #expect(answers == Set(numbers.map { Client.ok($0) }))
            #expect(client.transport.messages.first == Client.ok(numbers[0]))
        }
    }

    // MARK: Bounds

    @Test func writesThatWaitAreBounded() throws {
        try withBench {
            $0.maxWaitingRequests = 3
        } _: { bench in
            let client = try bench.connect()
            let numbers = try client.askTogether((0..<6).map { ("p", #"{"p":"/a\#($0)","d":1}"#) })
            let refusal = #""Too many writes are waiting.""#
            for number in numbers[3...] { try client.expect(Client.answer(number, "unavailable", refusal)) }
            for number in numbers[..<3] { try client.expect(Client.ok(number)) }
            try client.ask("p", #"{"p":"/a9","d":1}"#, gives: "ok")
        }
    }

    @Test func requestsThatWaitAreBounded() throws {
        try withBench {
            $0.maxQueuedRequests = 3
        } _: { bench in
            let client = try bench.connect()
            _ = try client.on { $0.hold() }
            let texts = (0..<4).map { _ in client.request("s").text }
            #expect(try client.send(Array(texts[..<3])))
            #expect(try !client.send(texts[3]))
        }
    }

    /// Checks that waiting requests count against the memory share of the client's address.
    @Test func requestsThatWaitTakeMemory() throws {
        let memory = MemoryBudget(bytes: 1 << 20, bytesPerAddress: 1_500)
        try withBench {
            $0.memory = memory
        } _: { bench in
            let client = try bench.connect(isLoopback: false, address: "192.0.2.1")
            _ = try client.on { $0.hold() }
            var taken = 0
            while try client.send(client.request("s").text) { taken += 1 }
            #expect((2...5).contains(taken))
            #expect(memory.taken > 0)
            try client.disconnect()
            #expect(eventually { memory.taken == 0 })
            // Other addresses have their own shares.
            let other = try bench.connect(isLoopback: false, address: "192.0.2.9")
            _ = try other.on { $0.hold() }
            try other.ask("s")
        }
    }

    @Test func ratesOfAnAddress() throws {
        try withBench {
            $0.limits.perAddress = RateLimit(perSecond: 0.001, burst: 3)
            $0.limits.maxRefusedMessages = 2
        } _: { bench in
            let client = try bench.connect(isLoopback: false, address: "192.0.2.1")
            for _ in 0..<3 { try client.ask("s", gives: "ok") }
            try client.ask("s", gives: "unavailable", #""Too many requests""#)
            // An unlisten is always admitted.
            try client.ask("n", #"{"p":"/a"}"#, gives: "ok")
            try client.ask("s", gives: "unavailable", #""Too many requests""#)
            // A client that continues to exceed the limit is disconnected.
            #expect(try !client.send(client.request("s").text))
            let other = try bench.connect(isLoopback: false, address: "198.51.100.1")
            try other.ask("s", gives: "ok")
        }
    }

    @Test func bytesWrittenToANamespace() throws {
        try withBench {
            $0.limits.writeBytes = RateLimit(perSecond: 100 / 60.0, burst: 100)
        } _: { bench in
            let client = try bench.connect()
            let text = String(repeating: "x", count: 70)
            try client.ask("p", #"{"p":"/a","d":"\#(text)"}"#, gives: "ok")
            // The last admitted write may be larger than the remaining budget.
            try client.ask("p", #"{"p":"/b","d":"\#(text)"}"#, gives: "ok")
            try client.ask("p", #"{"p":"/c","d":"\#(text)"}"#, gives: "unavailable", #""Too many requests""#)
            #expect(try bench.value("c") == "null")
        }
    }

    /// Checks that a write that the rules will deny does not use up the write budget.
    @Test func whatTheRulesRefuseCountsAsNothing() throws {
        try withBench(rules: #"{"rules":{"open":{".write":true}}}"#) {
            $0.limits.writeBytes = RateLimit(perSecond: 100 / 60.0, burst: 100)
        } _: { bench in
            let client = try bench.connect()
            let text = String(repeating: "x", count: 70)
            for _ in 0..<5 {
                try client.ask("p", #"{"p":"/shut","d":"\#(text)"}"#, gives: "permission_denied", Client.denied)
            }
            try client.ask("p", #"{"p":"/open","d":"\#(text)"}"#, gives: "ok")
        }
    }

    // MARK: Long messages

    @Test func longMessagesKeepTheirOrder() throws {
        try withBench {
            $0.heavyBodyBytes = 300
        } _: { bench in
            let client = try bench.connect()
            let text = String(repeating: "x", count: 400)
            let numbers = try client.askTogether([
                ("p", #"{"p":"/a","d":1}"#), ("p", #"{"p":"/a","d":"\#(text)"}"#), ("g", #"{"p":"/a"}"#),
                ("p", #"{"p":"/a","d":2}"#), ("g", #"{"p":"/a"}"#),
            ])
            try client.expect(
                Client.ok(numbers[0]), Client.ok(numbers[1]), Client.ok(numbers[2], #""\#(text)""#),
                Client.ok(numbers[3]), Client.ok(numbers[4], "2"))
        }
    }

    @Test func aLongMessageThatIsNoneEndsTheConnection() throws {
        try withBench {
            $0.heavyBodyBytes = 300
        } _: { bench in
            let client = try bench.connect()
            #expect(try client.send(String(repeating: "x", count: 400)))
            #expect(client.transport.waits(for: .close))
        }
    }

    /// Checks that a long message is not parsed if the rules deny it regardless of its content, and that a write that
    /// is denied after evaluation is not queued.
    @Test func longWritesAreTriedFirst() throws {
        let rules = #"{"rules":{"a":{".write":true,"$k":{".validate":"newData.val() < 1000"}}}}"#
        try withBench(rules: rules) {
            $0.heavyBodyBytes = 300
            $0.heavyRows = 20
        } _: { bench in
            let client = try bench.connect()
            let good = (0..<100).map { #""k\#($0)":\#($0)"# }.joined(separator: ",")
            let bad = good + #","last":5000"#
            try client.ask("p", #"{"p":"/shut","d":{\#(good)}}"#, gives: "permission_denied", Client.denied)
            try client.ask("p", #"{"p":"/a","d":{\#(bad)}}"#, gives: "permission_denied", Client.denied)
            #expect(bench.gateway.metrics.writes.current == 0)
            try client.ask("p", #"{"p":"/a","d":{\#(good)}}"#, gives: "ok")
            try client.ask(
                "m", #"{"p":"/a","d":{\#(good)},"h":"wrong"}"#, gives: "datastale",
                #""Transaction hash does not match""#)
            #expect(bench.gateway.metrics.writes.current == 1)
        }
    }

    // MARK: Bad messages

    @Test func whatIsNoMessageEndsTheConnection() throws {
        try withBench { bench in
            for text in [
                "", "nonsense", "{}", "[]", "null", #"{"t":"d"}"#, #"{"t":"d","d":{}}"#,
                #"{"t":"d","d":{"a":"s","b":{}}}"#, #"{"t":"d","d":{"r":"1","a":"s","b":{}}}"#,
                #"{"t":"d","d":{"r":1.5,"a":"s"}}"#, #"{"t":"x","d":{}}"#, #"{"t":"c","d":{}}"#,
                #"{"t":"d","d":{"r":1,"b":{}}}"#,
            ] {
                let client = try bench.connect()
                #expect(try !client.send(text), "\(text)")
                #expect(client.transport.messages.isEmpty, "\(text)")
            }
        }
    }

    @Test func controlMessagesMeanNothingToASocket() throws {
        try withBench { bench in
            for text in [
                #"{"t":"c","d":{"t":"a","d":{}}}"#, #"{"t":"c","d":{"t":"n","d":{}}}"#, #"{"t":"c","d":{"t":"x"}}"#,
            ] {
                let client = try bench.connect()
                #expect(try client.send(text), "\(text)")
                try client.ask("s", gives: "ok")
            }
        }
    }
}
