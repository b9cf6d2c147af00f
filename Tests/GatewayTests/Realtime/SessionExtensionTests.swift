import Engine
import Rules
import Runtime
import Testing
import Tree
import Wire

@testable import Gateway

/// Tests of the protocol extension: the log position of received data, and the notice that everything up to an entry
/// has been sent.
@Suite struct SessionExtensionTests {
    private func listen(_ path: String, _ more: String = "") -> String { #"{"p":"\#(path)","h":""\#(more)}"# }

    /// Returns the next message without its mark, and the mark.
    private func next(_ client: ScriptedClient) throws -> (text: String, mark: LogMark?) {
        let text = try client.next()
        guard let match = text.firstMatch(of: #/,"at":"([^"]*)"/#) else { return (text, nil) }
        return (text.replacing(match.0, with: ""), LogMark(String(match.1)))
    }

    private func expect(
        _ client: ScriptedClient, _ text: String, at seq: Int64?, _ location: SourceLocation = #_sourceLocation
    ) throws {
        let found = try next(client)
        #expect(found.text == text, sourceLocation: location)
        #expect(found.mark?.seq == seq, sourceLocation: location)
    }

    @Test func dataAndAnswersSayAsOfWhichEntryTheyAre() throws {
        try withBench { bench in
            let first = try bench.write("a", #"{"b":1}"#)
            let client = try bench.connect(isExtended: true)
            var number = try client.ask("q", listen("/a"))
            try expect(client, ScriptedClient.put("a", #"{"b":1}"#), at: first)
            try expect(client, ScriptedClient.ok(number, "{}"), at: first)
            number = try client.ask("p", #"{"p":"/a/b","d":2}"#)
            try expect(client, ScriptedClient.put("a/b", "2"), at: first + 1)
            try expect(client, ScriptedClient.ok(number), at: first + 1)
            try bench.write("elsewhere", "1")
            number = try client.ask("g", #"{"p":"/a"}"#)
            try expect(client, ScriptedClient.ok(number, #"{"b":2}"#), at: first + 2)
            number = try client.ask("q", listen("/a", #","t":7,"q":{"i":".key","l":1,"vf":"r"}"#))
            let push = try next(client)
            #expect(push.text == ScriptedClient.put("a", #"{"b":2}"#, tag: 7) && push.mark?.seq == first + 2)
            try expect(client, ScriptedClient.ok(number, "{}"), at: first + 2)
        }
    }

    /// Checks that refused requests reveal nothing about the log, and that clients without the extension receive no
    /// marks.
    @Test func whatIsRefusedHasNoMark() throws {
        let rules = #"{"rules":{"open":{".read":true,".write":true}}}"#
        try withBench(rules: rules) { bench in
            let client = try bench.connect(isLoopback: false, isExtended: true)
            for (action, body) in [
                ("q", listen("/closed")), ("g", #"{"p":"/closed"}"#), ("p", #"{"p":"/closed","d":1}"#),
                ("p", #"{"p":"/open","d":1,"h":"wrong"}"#), ("pm-wait", #"{"seq":0}"#),
                ("pm-wait", #"{"seq":0,"p":"/closed"}"#), ("pm-wait", #"{"seq":999,"p":"/closed"}"#),
            ] {
                try client.ask(action, body)
                let answer = try client.next()
                #expect(!answer.contains(#""at""#) && !answer.contains(#""s":"ok""#), "\(answer)")
            }
            let other = try bench.connect()
            try other.ask("pm-wait", #"{"seq":0}"#, gives: "failure", #""Unknown action""#)
        }
    }

    @Test func aWaitIsAnsweredAfterTheChanges() throws {
        try withBench { bench in
            let first = try bench.write("a", "0")
            let client = try bench.connect(isExtended: true)
            let listening = try client.ask("q", listen("/a"))
            try expect(client, ScriptedClient.put("a", "0"), at: first)
            try expect(client, ScriptedClient.ok(listening, "{}"), at: first)
            let (later, now) = (
                try client.ask("pm-wait", #"{"seq":\#(first + 2)}"#), try client.ask("pm-wait", #"{"seq":\#(first)}"#)
            )
            try expect(client, ScriptedClient.ok(now), at: first)
            try bench.write("a", "1")
            try bench.write("elsewhere", "1")
            try expect(client, ScriptedClient.put("a", "1"), at: first + 1)
            try expect(client, ScriptedClient.ok(later), at: first + 2)
        }
    }

    /// Checks that a client that has shown its read permission needs no listen. Too many waits are refused, as is one
    /// that takes too long.
    @Test func waitsAreBounded() throws {
        let rules = #"{"rules":{"open":{".read":true}}}"#
        try withBench(rules: rules) { settings in
            settings.minSeqWaitMilliseconds = 500
        } _: { bench in
            let client = try bench.connect(isLoopback: false, isExtended: true)
            let seq = bench.namespace.snapshot.seq
            var number = try client.ask("pm-wait", #"{"seq":\#(seq),"p":"/open"}"#)
            try expect(client, ScriptedClient.ok(number), at: seq)
            let waiting = (action: "pm-wait", body: #"{"seq":999,"p":"/open"}"#)
            let numbers = try client.askTogether(Array(repeating: waiting, count: 17))
            try expect(
                client, ScriptedClient.answer(numbers[16], "unavailable", #""Too many waits are in progress.""#),
                at: nil)
            let given = try Set(numbers.dropLast().map { _ in try client.next() })
            let text = #""This gateway has not applied the entry yet.""#
            #expect(given == Set(numbers.dropLast().map { ScriptedClient.answer($0, "unavailable", text) }))
            number = try client.ask("pm-wait", #"{"seq":\#(seq),"p":"/open"}"#)
            try expect(client, ScriptedClient.ok(number), at: seq)
        }
    }

    // MARK: Resumed listens

    /// A value with enough leaves that reading a few entries takes less work than hashing the value.
    private static let many = "{" + (0..<200).map { #""k\#($0)":\#($0)"# }.joined(separator: ",") + "}"

    @Test func aListenResumesAfterItsClientsState() throws {
        try withBench { bench in
            let first = try bench.write("a", Self.many)
            let client = try bench.connect(isExtended: true)
            try client.ask("q", listen("/a"))
            _ = try next(client)
            let mark = try #require(try next(client).mark)
            #expect(mark.seq == first)
            try client.disconnect()
            let after = try #require(mark.resumption)
            let again = try bench.connect(isExtended: true)
            var request = try again.ask("q", listen("/a", #","at":"\#(after)""#))
            try expect(again, ScriptedClient.ok(request, "{}"), at: first)
            try again.ask("n", #"{"p":"/a"}"#, gives: "ok")
            try bench.write("a/k1", "null")
            try bench.write("elsewhere", "1")
            try bench.write("a/k2", #"{"x":1}"#)
            request = try again.ask("q", listen("/a", #","at":"\#(after)""#))
            try expect(again, ScriptedClient.put("a/k1", "null"), at: first + 1)
            let push = try next(again)
            #expect(push.text == ScriptedClient.put("a/k2", #"{"x":1}"#) && push.mark?.seq == first + 3)
            try expect(again, ScriptedClient.ok(request, "{}"), at: first + 3)
            try bench.write("a/k3", "null")
            try expect(again, ScriptedClient.put("a/k3", "null"), at: first + 4)
            #expect(bench.gateway.metrics.listensResumed.current == 2)
        }
    }

    /// Checks that a listen is not resumed from an entry of another path, other rules or another history, nor from one
    /// that is too old or guessed.
    @Test func elseTheClientIsToAskWithHashes() throws {
        try withBench { bench in
            let first = try bench.write("a", Self.many)
            let client = try bench.connect(isExtended: true)
            _ = try client.ask("q", listen("/a"))
            _ = try next(client)
            let after = try #require(try next(client).mark?.resumption)
            let again = try bench.connect(isExtended: true)
            func refuses(_ path: String, _ text: String, _ location: SourceLocation = #_sourceLocation) throws {
                let number = try again.ask("q", listen(path, #","at":"\#(text)""#))
                try expect(again, ScriptedClient.answer(number, "not_resumed"), at: nil, location)
            }
            try refuses("/", after)
            try refuses("/a", "\(first)-AAAAAAAAAAAAAAAAAAAAAAAA")
            try refuses("/a", "\(first + 1)" + after.drop { $0 != "-" })
            for index in 0..<13 { try bench.write("elsewhere", "\(index)") }
            try refuses("/a", after)
            try bench.setRules(#"{"rules":{".read":true,".write":true}}"#)
            try refuses("/a", after)
            // The refused listen leaves no trace.
            try again.ask("q", listen("/a"))
            _ = try next(again)
            #expect(try next(again).mark?.seq == bench.namespace.snapshot.seq)
            #expect(bench.gateway.metrics.listensResumed.current == 0)
            // Reading thirteen entries takes more work than comparing the 200 leaves, however long the log is retained.
            #expect(bench.gateway.metrics.resumesFresh.current == 4)
            #expect(bench.gateway.metrics.resumesCompared.current == 1)
        }
    }

    /// Checks that a client that has lost its read permission is refused, even if it has seen earlier data.
    @Test func permissionComesFirst() throws {
        let rules = #"{"rules":{"a":{".read":"auth.uid === 'u'",".write":true}}}"#
        try withBench(rules: rules) { bench in
            try bench.write("a", Self.many)
            let client = try bench.connect(isLoopback: false, isExtended: true)
            try client.ask(
                "q", listen("/a", #","at":"1-AAAAAAAAAAAAAAAAAAAAAAAA""#), gives: "permission_denied",
                ScriptedClient.denied)
        }
    }

    /// Checks that a repeated named write is answered without being executed again, and that clients without the
    /// extension write as usual.
    @Test func namedWritesAreDoneOnce() throws {
        try withBench { bench in
            let increment = #"{"p":"/n","d":{".sv":{"increment":1}},"w":"writer-1.1"}"#
            var first: LogMark?
            for _ in 0..<3 {
                let client = try bench.connect(isExtended: true)
                for _ in 0..<2 {
                    let number = try client.ask("p", increment)
                    let answer = try next(client)
                    #expect(answer.text == ScriptedClient.ok(number))
                    first = first ?? answer.mark
                    #expect(answer.mark == first)
                }
            }
            #expect(try bench.value("n") == "1")
            let other = try bench.connect()
            for _ in 0..<2 {
                let number = try other.ask("p", increment)
                #expect(try other.next() == ScriptedClient.ok(number))
            }
            #expect(try bench.value("n") == "3")
            // A transaction states its expected value itself.
            let client = try bench.connect(isExtended: true)
            let hash = Node.int(3).hash
            for status in ["ok", "datastale"] {
                try client.ask("p", #"{"p":"/n","d":4,"h":"\#(hash)","w":"writer-1.2"}"#)
                #expect(try client.next().contains(#""s":"\#(status)""#))
            }
        }
    }

    /// Checks that a client without write permission learns from another client's write name only that such a write
    /// exists, and that a denied write is not marked as executed by it.
    @Test func aDeniedNamedWriteIsJudgedAgain() throws {
        let rules = #"{"rules":{".read":true,"open":{".write":"data.parent().child('is').exists()"}}}"#
        try withBench(rules: rules) { bench in
            let client = try bench.connect(isLoopback: false, isExtended: true)
            let write = #"{"p":"/open/a","d":1,"w":"writer-1.1"}"#
            for isAllowed in [false, true, true] {
                if isAllowed { try bench.write("is", "1") }
                try client.ask("p", write)
                #expect(try client.next().contains(isAllowed ? #""s":"ok""# : #""s":"permission_denied""#))
            }
            #expect(try bench.value("open/a") == "1")
        }
    }

    /// Checks that a repeated write to a path that can be created only once is not reported as refused. A long message
    /// is evaluated before it is queued, and its name is recognized as well.
    @Test(arguments: [10, 200]) func completedWritesAreNotReportedAsRefused(length: Int) throws {
        let rules = #"{"rules":{".read":true,".write":"!data.exists()"}}"#
        try withBench(rules: rules) { settings in
            settings.heavyBodyBytes = 100
            settings.heavyRows = 0
        } _: { bench in
            let text = String(repeating: "x", count: length)
            let write = #"{"p":"/a","d":{"b":"\#(text)"},"w":"writer-1.1"}"#
            for _ in 0..<2 {
                let client = try bench.connect(isLoopback: false, isExtended: true)
                for _ in 0..<2 {
                    try client.ask("p", write)
                    #expect(try client.next().contains(#""s":"ok""#))
                }
                try client.ask("p", write.replacing("writer-1.1", with: "writer-2.1"))
                #expect(try client.next().contains(#""s":"permission_denied""#))
            }
            #expect(try bench.value("a").contains(text))
        }
    }
}
