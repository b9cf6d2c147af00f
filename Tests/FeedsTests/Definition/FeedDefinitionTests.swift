import JSONText
import Rules
import Runtime
import Testing
import Tree

@testable import Feeds

/// Tests of feed definitions in requests and files.
@Suite struct FeedDefinitionTests {
    private func read(_ text: String) throws -> FeedDefinition {
        try FeedDefinition.read(Array(text.utf8), name: "f")
    }

    @Test func whatIsLeftOutHasItsDefault() throws {
        let definition = try read(#"{"path":"/orders/{order_id}/items"}"#)
        #expect(definition.operations == nil)
        #expect(definition.events == [.created, .updated, .deleted])
        #expect(definition.filter == nil)
        #expect(definition.include == [.value])
        #expect(definition.recordDepth == 2)
        #expect(definition.start == .now)
        #expect(definition.order == .key)
        #expect(definition.maxAttempts == 10)
        #expect(definition.firstBackoffMilliseconds == 1_000 && definition.maxBackoffMilliseconds == 60_000)
        #expect(definition.ackDeadlineMilliseconds == 30_000)
        #expect(definition.deadPolicy == .continue)
        #expect(definition.retentionSeconds == 7 * 86_400 && definition.retentionPolicy == .alarm)
    }

    @Test(arguments: [
        #"{"path":"/a"}"#, #"{"path":"/a/{x}","operations":["set","import"],"events":"created","include":[]}"#,
        #"{"path":"/{x}/b/{y_1}","filter":"$x == 'a' && newData.exists()","include":["record","old"],"record_depth":1}"#,
        #"{"path":"/a/{x}","start":"beginning"}"#, #"{"path":"/a/{x}","start":"snapshot"}"#,
        #"{"path":"/a/{x}","start":{"seq":42}}"#, #"{"path":"/a/{x}","start":{"time":"2026-11-22T10:00:00Z"}}"#,
        #"{"path":"/a/{x}","order":"namespace","max_attempts":1,"backoff":{"first":"0s","max":"0s"}}"#,
        #"{"path":"/a/{x}","backoff":{"first":"90s"},"ack_deadline":"10ms","on_dead":"stop"}"#,
        #"{"path":"/a/{x}","retention":"90s","when_retention_ends":"drop"}"#, #"{"path":"/a/{x}","retention":"36h"}"#,
        #"{"path":"/ä \"\\'/{x}"}"#,
    ])
    func theCompleteTextReadsAsTheSame(_ text: String) throws {
        let definition = try read(text)
        let complete = definition.json(as: .stored)
        let again = try FeedDefinition.read(stored: complete, name: "f")
        #expect(again == definition)
        #expect(again.json(as: .stored) == complete)
    }

    /// Checks that gateways of earlier versions can read the stored form, and that their stored forms can be read.
    @Test func theStoredFormHasNumbers() throws {
        let read = try read(
            #"{"path":"/a/{x}","backoff":{"first":"200ms","max":"10s"},"ack_deadline":"5s","webhook":{"url":"https://a.example/","secrets":["env:PATHMIRROR_SINK_A"],"timeout":"3s"}}"#
        )
        let stored = String(decoding: read.json(as: .stored), as: UTF8.self)
        let shown = String(decoding: read.json(as: .shown), as: UTF8.self)
        for member in [
            #""backoff":{"first_ms":200,"max_ms":10000}"#, #""ack_deadline_ms":5000"#,
            #""timeout_ms":3000,"connect_timeout_ms":3000"#,
        ] { #expect(stored.contains(member), "\(stored)") }
        for member in [
            #""backoff":{"first":"200ms","max":"10s"}"#, #""ack_deadline":"5s""#,
            #""timeout":"3s","connect_timeout":"3s""#,
        ] { #expect(shown.contains(member), "\(shown)") }
        #expect(try FeedDefinition.read(Array(shown.utf8), name: "f") == read)
        #expect(throws: DefinitionError.self) { try FeedDefinition.read(Array(stored.utf8), name: "f") }
        #expect(throws: DefinitionError.self) { try FeedDefinition.read(stored: Array(shown.utf8), name: "f") }
    }

    /// Checks that gateways of the previous version, which accept a whole number below a million with d, h, m or s, can
    /// read the stored retention.
    @Test(arguments: [
        "1s", "1000ms", "60000ms", "59s", "999999s", "1000000s", "1000001s", "60000000s", "59999940s", "999999m",
        "1000000m", "1000001m", "3600000000s", "36000000s", "999999h", "1000000h", "24000000h", "999999d", "52w",
        "142857w", "1000000000ms",
    ])
    func aStoredRetentionIsReadByThePreviousVersion(_ retention: String) throws {
        guard let definition = try? read(#"{"path":"/a/{x}","retention":"\#(retention)"}"#) else {
            // Refuses only retentions that exceed this in each unit of which they are a multiple.
            let seconds = try #require(TimeSpan.seconds(retention))
            #expect([1, 60, 3_600, 86_400].allSatisfy { seconds % $0 != 0 || seconds / $0 > 999_999 })
            return
        }
        let stored = String(decoding: definition.json(as: .stored), as: UTF8.self)
        let text = try #require(stored.firstMatch(of: #/"retention":"([1-9][0-9]{0,5})([dhms])"/#), "\(stored)")
        let units = ["d": 86_400, "h": 3_600, "m": 60, "s": 1] as [Substring: Int64]
        let (count, unit) = (try #require(Int64(text.1)), try #require(units[text.2]))
        #expect(count * unit == TimeSpan.seconds(retention))
    }

    @Test func theOrderOfWordsSaysNothing() throws {
        let first = try read(#"{"path":"/a/{x}","events":["deleted","created"],"include":["old","value"]}"#)
        let second = try read(#"{"include":["value","old"],"events":["created","deleted"],"path":"/a/{x}"}"#)
        #expect(first.json(as: .stored) == second.json(as: .stored))
    }

    @Test(arguments: [
        (#"{}"#, "path"), (#"[]"#, ""), (#"{"path":1}"#, "path"), (#"{"path":"a"}"#, "path"),
        (#"{"path":"/"}"#, "path"), (#"{"path":"/a//b"}"#, "path"), (#"{"path":"/{x}/{x}"}"#, "path"),
        (#"{"path":"/{1x}"}"#, "path"), (#"{"path":"/{x-y}"}"#, "path"), (#"{"path":"/a.b"}"#, "path"),
        (#"{"path":"/a","name":"g"}"#, "name"), (#"{"path":"/a","operations":["rules"]}"#, "operations"),
        (#"{"path":"/a","operations":[]}"#, "operations"), (#"{"path":"/a","events":["changed"]}"#, "events"),
        (#"{"path":"/a","events":[]}"#, "events"), (#"{"path":"/a","include":"all"}"#, "include"),
        (#"{"path":"/a","record_depth":2}"#, "record_depth"), (#"{"path":"/a","record_depth":0}"#, "record_depth"),
        (#"{"path":"/a","filter":"newData."}"#, "filter"), (#"{"path":"/a","filter":"$x == 1"}"#, "filter"),
        (#"{"path":"/a","filter":7}"#, "filter"),
        (#"{"path":"/a","include":["value"],"webhook":\#(Self.functionHook)}"#, "include"),
        (#"{"path":"/a","start":"later"}"#, "start"),
        (#"{"path":"/a","start":{"seq":-1}}"#, "start.seq"), (#"{"path":"/a","start":{"time":"17"}}"#, "start.time"),
        (#"{"path":"/a","start":{"seq":1,"time":"2026-01-01"}}"#, "start"), (#"{"path":"/a","order":"none"}"#, "order"),
        (#"{"path":"/a","max_attempts":0}"#, "max_attempts"), (#"{"path":"/a","max_attempts":1.5}"#, "max_attempts"),
        (#"{"path":"/a","backoff":{"first_ms":1}}"#, "backoff.first_ms"),
        (#"{"path":"/a","backoff":{"first":"-1s"}}"#, "backoff.first"),
        (#"{"path":"/a","backoff":{"first":1}}"#, "backoff.first"),
        (#"{"path":"/a","ack_deadline_ms":1000}"#, "ack_deadline_ms"),
        (#"{"path":"/a","ack_deadline":"1000"}"#, "ack_deadline"),
        (#"{"path":"/a","backoff":1}"#, "backoff"),
        (#"{"path":"/a","backoff":{"first":"2ms","max":"1ms"}}"#, "backoff.max"),
        (#"{"path":"/a","backoff":{"max":"999ms"}}"#, "backoff.max"),
        (#"{"path":"/a","ack_deadline":"9ms"}"#, "ack_deadline"), (#"{"path":"/a","on_dead":"retry"}"#, "on_dead"),
        (#"{"path":"/a","retention":"7"}"#, "retention"), (#"{"path":"/a","retention":"-7d"}"#, "retention"),
        (#"{"path":"/a","retention":"0d"}"#, "retention"), (#"{"path":"/a","retention":7}"#, "retention"),
        (#"{"path":"/a","retention":"1500ms"}"#, "retention"), (#"{"path":"/a","retention":"1000000d"}"#, "retention"),
        (#"{"path":"/a","retention":"142858w"}"#, "retention"),
        (#"{"path":"/a","when_retention_ends":"delete"}"#, "when_retention_ends"), (#"{"path":"/a","x":1}"#, "x"),
    ])
    func aMistakeIsReportedByItsPart(_ text: String, _ part: String) {
        do throws(DefinitionError) {
            _ = try FeedDefinition.read(Array(text.utf8), name: "f")
            Issue.record("\(text) was taken")
        } catch {
            #expect(error.problems.map(\.part) == [part], "\(text): \(error)")
            #expect(error.problems.allSatisfy { !$0.reason.isEmpty })
        }
    }
}

extension FeedDefinitionTests {
    private static let functionHook =
        #"{"url":"http://f/","secrets":["env:PATHMIRROR_SINK_A"],"format":"firebase"}"#

    /// A function's feed has both values, and its kind of event follows from the definition's events.
    @Test(arguments: [
        (#"["created"]"#, FirebaseEvent.Kind.created), (#""updated""#, .updated), (#""deleted""#, .deleted),
        (#"["created","updated"]"#, .written), (#"["deleted","updated","created"]"#, .written),
    ])
    func feedsOfFunctions(_ events: String, _ kind: FirebaseEvent.Kind) throws {
        let definition = try read(#"{"path":"/a/{x}","events":\#(events),"webhook":\#(Self.functionHook)}"#)
        #expect(definition.include == [.value, .old])
        #expect(definition.functionEvent == kind)
        #expect(try FeedDefinition.read(stored: definition.json(as: .stored), name: "f") == definition)
        let more = try read(
            #"{"path":"/a/{x}","include":["record","old","value"],"webhook":\#(Self.functionHook)}"#)
        #expect(more.include == [.value, .old, .record])
    }

    /// Checks that the message lists the allowed values.
    @Test(arguments: [
        ("on_dead", #""retry""#, "known are continue, stop"),
        ("when_retention_ends", #""delete""#, "known are alarm, drop"),
        ("order", #""none""#, "known are key, namespace"),
        ("retention", #""1 week""#, "such as 7d, 12h or 45m, from 1s to 999999d"),
        ("backoff", #"{"max":"5ms"}"#, "is less than backoff.first (1s, its default)"),
        ("ack_deadline", "30", #"a duration such as "30s", from 10ms to 12h"#),
    ])
    func aMistakeSaysWhatIsRight(_ member: String, _ value: String, _ hint: String) {
        #expect {
            _ = try read(#"{"path":"/a/{x}","\#(member)":\#(value)}"#)
        } throws: {
            "\($0)".contains(hint)
        }
    }

    /// A mistake hides no other one: all of them can be corrected at once.
    @Test(arguments: [
        (
            #"{"order":"none","retention":7,"filter":7,"record_depth":0}"#,
            ["path", "record_depth", "filter", "order", "retention"]
        ),
        (#"{"path":"orders","name":"g","on_dead":"retry","x":1}"#, ["x", "name", "path", "on_dead"]),
        // Members that depend on the path are not checked.
        (#"{"path":"orders/{id}","filter":"$id == '1'","record_depth":2}"#, ["path"]),
        (
            #"{"path":"/a/{x}","webhook":{"url":"nowhere"},"nats":{"url":"http://n"},"kafka":{"topic":"t"}}"#,
            ["webhook", "webhook.url", "webhook.secrets", "nats.url", "nats.subject", "kafka.brokers"]
        ),
    ])
    func allMistakesAreReported(_ text: String, _ parts: [String]) {
        do throws(DefinitionError) {
            _ = try FeedDefinition.read(Array(text.utf8), name: "f")
            Issue.record("\(text) was taken")
        } catch {
            #expect(error.problems.map(\.part) == parts, "\(error)")
        }
    }

    /// The thread that renews the right to work feeds compiles filters: what one may cost is bounded.
    @Test(arguments: [
        ("/^.{1,33000}$/", true), ("/^([^<>]{1,9}){900}$/", true), ("/^.{1,1000}$/", false),
        ("/^[^<>]{1,1000}$/", false),
        ("/^[A-Z0-9._%+-]+@[A-Z0-9.-]+\\\\.[A-Z]{2,4}$/i", false),
    ]) func aFilterIsBounded(_ pattern: String, _ isRefused: Bool) throws {
        let text = #"{"path":"/a/{x}","filter":"newData.val().matches(\#(pattern))"}"#
        do {
            #expect(try read(text).filter != nil && !isRefused)
        } catch {
            #expect(isRefused && "\(error)".contains("too large"))
        }
    }

    /// Checks that a string literal "auth" does not count as the name `auth`.
    @Test func aFilterMaySpellIt() throws {
        let filter = "newData.child('auth').val() == 'auth'"
        #expect(try read(#"{"path":"/a/{x}","filter":"\#(filter)"}"#).filter?.text == filter)
    }
}

/// Tests of the changes that a filter accepts.
@Suite struct FeedFilterTests {
    @Test(arguments: [
        ("newData.child('total').val() > 100", true), ("newData.child('total').val() > 200", false),
        ("data.child('total').val() < 100", true), ("!data.exists()", false), ("$id == 'o1'", true),
        ("$id == 'o2'", false), ("root.child('limit').val() == 5", true), ("now == 1000", true),
        // An evaluation error counts as false, as does a result that is not a boolean.
        ("newData.child('name').val() > 100", false), ("newData.child('none').val().length > 0", false),
        ("!(newData.child('name').val() > 100)", false), ("newData.child('name').val() == 'auth'", false),
    ])
    func aChange(_ text: String, _ isAdmitted: Bool) throws {
        let filter = try FeedFilter(text, for: try PathPattern("/orders/{id}"))
        let before = try JSONParser.parse(Array(#"{"orders":{"o1":{"total":50}},"limit":5}"#.utf8)).node
        let after = try JSONParser.parse(Array(#"{"orders":{"o1":{"total":150,"name":"n"}},"limit":5}"#.utf8)).node
        let path = Path(splitting: "orders/o1")
        #expect(filter.admits(path, before: before, after: after, author: .unknown, now: 1_000) == isAdmitted)
    }
}
