import Engine
import Runtime
import TestSupport
import Testing
import Tree

@testable import Gateway

/// Tests of the data that a realtime client receives, and of its order, over a scripted transport.
@Suite struct SessionListenTests {
    private typealias Client = ScriptedClient

    private func listen(_ path: String, _ more: String = "") -> String { #"{"p":"\#(path)","h":""\#(more)}"# }

    // MARK: Values and changes

    @Test func aValueComesBeforeTheAnswer() throws {
        try withBench { bench in
            try bench.write("a", #"{"b":1,"c":"two"}"#)
            let client = try bench.connect()
            let number = try client.ask("q", listen("/a"))
            try client.expect(Client.put("a", #"{"b":1,"c":"two"}"#), Client.ok(number, "{}"))
        }
    }

    @Test func anEmptyPathIsAnsweredOnly() throws {
        try withBench { bench in
            let client = try bench.connect()
            try client.ask("q", listen("/nothing"), gives: "ok", "{}")
            try bench.write("nothing", "1")
            try client.expect(Client.put("nothing", "1"))
        }
    }

    @Test func aClientThatHasTheValueIsNotSentIt() throws {
        try withBench { bench in
            try bench.write("a", #"{"b":1}"#)
            let hash = bench.namespace.snapshot.root[Path(splitting: "a")].hash
            let client = try bench.connect()
            try client.ask("q", #"{"p":"/a","h":"\#(hash)"}"#, gives: "ok", "{}")
            try bench.write("a/b", "2")
            try client.expect(Client.put("a/b", "2"))
            // The hash belongs to an older value by now.
            try client.ask("n", #"{"p":"/a"}"#, gives: "ok")
            let number = try client.ask("q", #"{"p":"/a","h":"\#(hash)"}"#)
            try client.expect(Client.put("a", #"{"b":2}"#), Client.ok(number, "{}"))
        }
    }

    @Test func changesFollowInTheirOrder() throws {
        try withBench { bench in
            let (client, writer) = (try bench.connect(), try bench.connect())
            try client.ask("q", listen("/a"), gives: "ok", "{}")
            try writer.ask("p", #"{"p":"/a/x","d":1}"#, gives: "ok")
            try writer.ask("m", #"{"p":"/a","d":{"y":2,"z":{"w":3}}}"#, gives: "ok")
            try writer.ask("p", #"{"p":"/elsewhere","d":1}"#, gives: "ok")
            try writer.ask("p", #"{"p":"/a/x","d":null}"#, gives: "ok")
            try writer.ask("p", #"{"p":"/","d":null}"#, gives: "ok")
            try client.expect(
                Client.put("a/x", "1"), Client.merge("a", #"{"y":2,"z":{"w":3}}"#), Client.put("a/x", "null"),
                Client.put("a", "null"))
            try client.expectNothing()
        }
    }

    /// Checks that a client receives its own change before the answer to its write.
    @Test func ownWritesAreSentBeforeTheirAnswers() throws {
        try withBench { bench in
            let client = try bench.connect()
            try client.ask("q", listen("/a"), gives: "ok", "{}")
            for count in 1...20 {
                let number = try client.ask("p", #"{"p":"/a","d":\#(count)}"#)
                try client.expect(Client.put("a", "\(count)"), Client.ok(number))
            }
        }
    }

    @Test func priorities() throws {
        try withBench { bench in
            let client = try bench.connect()
            try client.ask("q", listen("/a"), gives: "ok", "{}")
            let number = try client.ask("p", #"{"p":"/a","d":{".value":5,".priority":1}}"#)
            try client.expect(Client.put("a", #"{".value":5,".priority":1}"#), Client.ok(number))
        }
    }

    // MARK: Queries and tags

    @Test func pushesOfAQueryCarryItsTag() throws {
        try withBench { bench in
            try bench.write("a", #"{"b":1,"c":2}"#)
            let client = try bench.connect()
            let number = try client.ask("q", listen("/a", #","t":7,"q":{"i":".key","l":1,"vf":"r"}"#))
            try client.expect(Client.put("a", #"{"c":2}"#, tag: 7), Client.ok(number, "{}"))
            try bench.write("a/d", "3")
            let push = try client.next()
            #expect(push.hasPrefix(#"{"t":"d","d":{"a":"m","b":{"p":"a","d":{"#) && push.hasSuffix(#","t":7}}}"#))
            #expect(push.contains(#""c":null"#) && push.contains(#""d":3"#))
            // A change outside the window.
            try bench.write("a/a", "0")
            try client.expectNothing()
        }
    }

    /// Checks that listens with the same path and query share their encoding but have different tags.
    @Test func everyClientHasItsOwnTag() throws {
        try withBench { bench in
            let clients = try (0..<4).map { _ in try bench.connect() }
            let query = #","q":{"i":".key","sp":"b"}"#
            for (index, client) in clients.enumerated() {
                try client.ask("q", listen("/a", #","t":\#(index / 2 + 1)"# + query), gives: "ok", "{}")
            }
            try bench.write("a/c", "1")
            for (index, client) in clients.enumerated() {
                let push = try client.next()
                #expect(push.hasSuffix(#","t":\#(index / 2 + 1)}}}"#), "\(push)")
            }
        }
    }

    @Test func theSameListenWithAnotherTagReplacesTheFirst() throws {
        try withBench { bench in
            try bench.write("a", #"{"b":1}"#)
            let client = try bench.connect()
            let query = #","q":{"i":".key","l":5}"#
            var number = try client.ask("q", listen("/a", #","t":1"# + query))
            try client.expect(Client.put("a", #"{"b":1}"#, tag: 1), Client.ok(number, "{}"))
            number = try client.ask("q", listen("/a", #","t":2"# + query))
            try client.expect(Client.put("a", #"{"b":1}"#, tag: 2), Client.ok(number, "{}"))
            #expect(bench.gateway.metrics.listens.current == 1)
            try bench.write("a", "null")
            try client.expect(Client.put("a", "null", tag: 2))
            try client.expectNothing()
        }
    }

    @Test func anUnindexedQueryIsSaidToBeSo() throws {
        let rules = #"{"rules":{".read":true,".write":true,"indexed":{".indexOn":"x"}}}"#
        try withBench(rules: rules) { bench in
            let client = try bench.connect()
            let query = #","t":1,"q":{"i":"x","l":5}"#
            try client.ask("q", listen("/indexed", query), gives: "ok", "{}")
            try client.ask("q", listen("/a", query), gives: "ok", #"{"w":["no_index"]}"#)
            let refusal = try client.ask("g", #"{"p":"/a","q":{"i":"x","l":5}}"#)
            #expect(
                try client.next().hasPrefix(#"{"t":"d","d":{"r":\#(refusal),"b":{"s":"failure","d":"Index not defined"#)
            )
        }
    }

    // MARK: Removing listens

    @Test func nothingIsSentAfterAnUnlisten() throws {
        try withBench { bench in
            let client = try bench.connect()
            try client.ask("q", listen("/a"), gives: "ok", "{}")
            try client.ask("q", listen("/b"), gives: "ok", "{}")
            try client.ask("n", #"{"p":"/a"}"#, gives: "ok")
            // An unlisten succeeds even if there is no such listen.
            try client.ask("n", #"{"p":"/never"}"#, gives: "ok")
            try bench.write("a", "1")
            try bench.write("b", "2")
            try client.expect(Client.put("b", "2"))
            #expect(bench.gateway.metrics.listens.current == 1)
        }
    }

    @Test func listensEndWithTheSession() throws {
        try withBench { bench in
            let client = try bench.connect()
            for path in ["a", "b", "c"] { try client.ask("q", listen("/\(path)"), gives: "ok", "{}") }
            #expect(bench.gateway.metrics.listens.current == 3 && bench.namespace.listenerCount == 3)
            try client.disconnect()
            #expect(eventually { bench.gateway.metrics.listens.current == 0 && bench.namespace.listenerCount == 0 })
            #expect(bench.gateway.groups.count == 0)
        }
    }

    @Test func listensAreBounded() throws {
        try withBench {
            $0.maxListens = 2
        } _: { bench in
            let client = try bench.connect()
            try client.ask("q", listen("/a"), gives: "ok", "{}")
            try client.ask("q", listen("/b"), gives: "ok", "{}")
            try client.ask("q", listen("/c"), gives: "too_big", #""Too many listens on one connection""#)
            // An existing listen may be repeated, and a removed listen frees its slot.
            try client.ask("q", listen("/b"), gives: "ok", "{}")
            try client.ask("n", #"{"p":"/a"}"#, gives: "ok")
            try client.ask("q", listen("/c"), gives: "ok", "{}")
        }
    }

    // MARK: Permissions

    @Test func unauthorizedReadersAreRefused() throws {
        try withBench(rules: #"{"rules":{"open":{".read":true,".write":true}}}"#) { bench in
            let client = try bench.connect()
            try client.ask("q", listen("/shut"), gives: "permission_denied", Client.denied)
            try client.ask("g", #"{"p":"/shut"}"#, gives: "permission_denied", Client.denied)
            try client.ask("q", listen("/open"), gives: "ok", "{}")
            #expect(bench.gateway.metrics.listens.current == 1)
        }
    }

    @Test func newRulesEndListens() throws {
        try withBench { bench in
            let client = try bench.connect()
            try client.ask("q", listen("/a"), gives: "ok", "{}")
            try client.ask("q", listen("/b"), gives: "ok", "{}")
            try bench.setRules(#"{"rules":{"b":{".read":true}}}"#)
            try client.expect(Client.cancel("a"))
            _ = bench.namespace.write(.set("a", .int(1)))
            _ = bench.namespace.write(.set("b", .int(2)))
            try client.expect(Client.put("b", "2"))
        }
    }

    @Test func aCancelledQueryIsNamedAsItCame() throws {
        try withBench { bench in
            let client = try bench.connect()
            let query = #"{"i":".key","l":3,"vf":"l"}"#
            try client.ask("q", listen("/a", #","t":1,"q":"# + query), gives: "ok", "{}")
            try bench.setRules(#"{"rules":{}}"#)
            try client.expect(Client.cancel("a", query: query))
        }
    }

    /// Checks that a client receives no more data once a change elsewhere makes the rules deny its listen.
    @Test func dataElsewhereEndsAListenBeforeMoreIsSent() throws {
        let rules = #"{"rules":{"a":{".read":"root.child('isOpen').val() == true"}}}"#
        try withBench(rules: rules) { bench in
            try bench.write("isOpen", "true")
            let client = try bench.connect()
            try client.ask("q", listen("/a"), gives: "ok", "{}")
            try bench.write("a", "1")
            try client.expect(Client.put("a", "1"))
            try bench.write("isOpen", "false")
            try bench.write("a", "2")
            try client.expect(Client.cancel("a"))
            try client.expectNothing()
        }
    }

    @Test func dataElsewhereIsNoticedWithoutAChange() throws {
        let rules = #"{"rules":{"a":{".read":"root.child('isOpen').val() == true"}}}"#
        try withBench(rules: rules) { bench in
            try bench.write("isOpen", "true")
            let client = try bench.connect()
            try client.ask("q", listen("/a"), gives: "ok", "{}")
            try bench.write("isOpen", "false")
            // The sweep detects that the tree has changed.
            try client.expect(Client.cancel("a"))
        }
    }

    // MARK: Large values

    @Test func aLargeValueComesFromAWorkerAndBeforeItsChanges() throws {
        try withBench {
            $0.heavyRows = 10
        } _: { bench in
            let children = (0..<200).map { #""k\#($0)":\#($0)"# }.joined(separator: ",")
            try bench.write("a", "{\(children)}")
            let client = try bench.connect()
            for round in 0..<10 {
                let number = try client.ask("q", listen("/a"))
                try bench.write("a/k7", "\(1_000 + round)")
                let value = try client.next()
                #expect(value.hasPrefix(#"{"t":"d","d":{"a":"d","b":{"p":"a","d":{"k0":0,"#))
                // The change is either part of the value or follows it. It never precedes the value.
                var rest = [try client.next()]
                if !value.contains(#""k7":\#(1_000 + round),"#) { rest.append(try client.next()) }
                #expect(rest.contains(Client.ok(number, "{}")))
                if rest.count > 1 { #expect(rest.contains(Client.put("a/k7", "\(1_000 + round)"))) }
                try client.ask("n", #"{"p":"/a"}"#, gives: "ok")
            }
        }
    }

    /// Checks that requests that arrive while a worker prepares an answer wait for that answer.
    @Test func requestsAfterALargeReadWait() throws {
        try withBench {
            $0.heavyRows = 5
        } _: { bench in
            try bench.write("a", "{\((0..<100).map { #""k\#($0)":1"# }.joined(separator: ","))}")
            let client = try bench.connect()
            let numbers = try client.askTogether([
                ("g", #"{"p":"/a"}"#), ("s", "{}"), ("g", #"{"p":"/a/k1"}"#), ("q", listen("/a")), ("s", "{}"),
            ])
            #expect(try client.next().hasPrefix(#"{"t":"d","d":{"r":\#(numbers[0]),"b":{"s":"ok","d":{"k0":1"#))
            try client.expect(Client.ok(numbers[1]), Client.ok(numbers[2], "1"))
            #expect(try client.next().hasPrefix(#"{"t":"d","d":{"a":"d","b":{"p":"a","#))
            try client.expect(Client.ok(numbers[3], "{}"), Client.ok(numbers[4]))
        }
    }

    @Test func aValueThatIsTooLongIsRefused() throws {
        try withBench { bench in
            try bench.write("a", #"{"text":"\#(String(repeating: "x", count: 500))"}"#)
            let client = try bench.connect()
            client.transport.takesAtMost(300)
            let text = #""Data requested exceeds the maximum size that can be accessed with a single request.""#
            try client.ask("q", listen("/a"), gives: "too_big", text)
            #expect(bench.gateway.metrics.listens.current == 0)
            try client.ask("g", #"{"p":"/a"}"#, gives: "too_big", text)
            try client.ask("g", #"{"p":"/b"}"#, gives: "ok", "null")
        }
    }

    /// Checks that the answer to `get` is sent separately: the SDK must not process it together with later messages.
    @Test func anAnswerToGetStandsAlone() throws {
        try withBench { bench in
            let client = try bench.connect()
            let number = try client.ask("g", #"{"p":"/a"}"#)
            try client.expect(Client.ok(number, "null"))
            #expect(client.transport.events == [.message(Client.ok(number, "null")), .separation])
        }
    }

    // MARK: Slow clients

    @Test func aSlowClientIsSentTheNewestValueOnly() throws {
        try withBench {
            $0.streamBufferBytes = 1_000
        } _: { bench in
            let client = try bench.connect()
            try client.ask("q", listen("/a"), gives: "ok", "{}")
            client.transport.isAfter(bytes: 2_000)
            for value in 1...50 { try bench.write("a", "\(value)") }
            #expect(eventually { bench.gateway.metrics.conflations.current == 1 })
            try bench.settle()
            client.transport.isAfter(bytes: 0)
            _ = try client.on { $0.drained() }
            try client.expect(Client.put("a", "50"))
            try bench.write("a", "51")
            try client.expect(Client.put("a", "51"))
        }
    }

    /// Checks that a write is answered after the value that contains its change.
    @Test func aWritesAnswerWaitsForWhatTheClientMissed() throws {
        try withBench {
            $0.streamBufferBytes = 1_000
        } _: { bench in
            let client = try bench.connect()
            try client.ask("q", listen("/a"), gives: "ok", "{}")
            client.transport.isAfter(bytes: 2_000)
            let number = try client.ask("p", #"{"p":"/a","d":1}"#)
            #expect(eventually { (try? bench.value("a")) == "1" })
            #expect(eventually { bench.gateway.metrics.conflations.current == 1 })
            try bench.settle()
            // A request that does not write is answered immediately.
            try client.ask("s", gives: "ok")
            client.transport.isAfter(bytes: 0)
            _ = try client.on { $0.drained() }
            try client.expect(Client.put("a", "1"), Client.ok(number))
        }
    }
}
