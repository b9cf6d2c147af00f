import Feeds
import Testing
import Wire

@testable import Gateway

/// Tests of the bodies of feed requests: each member, its bounds, and the refusals.
@Suite struct FeedBodiesTests {
    private func body(_ text: String) -> [UInt8] { Array(text.utf8) }

    private func text(_ count: Int) -> String { String(repeating: "x", count: count) }

    private func ids(_ count: Int) -> String {
        "[" + (0..<count).map { "\"default:\($0):0\"" }.joined(separator: ",") + "]"
    }

    /// Returns the message with which a body is refused, or nil if the body is accepted.
    private func refusal(_ read: () throws -> Void) -> String? {
        do {
            try read()
            return nil
        } catch let error as RESTError {
            #expect(error.status == 400)
            return error.message
        } catch {
            return "\(error)"
        }
    }

    // MARK: Any body

    @Test(arguments: ["{", "{]", "nul", "{\"max\":1}}", "{\"max\":01}", "\u{1}", "{\"max\":1,\"max\":2}"])
    func notJSON(_ text: String) {
        #expect(refusal { _ = try FeedBodies.pull(body(text)) }?.hasPrefix("The body is not JSON: ") == true)
    }

    @Test(arguments: ["[]", "1", "\"max\"", "null", "true"]) func notAnObject(_ text: String) {
        #expect(refusal { _ = try FeedBodies.pull(body(text)) } == "The body must be a JSON object")
    }

    @Test func unknownMembers() {
        let long = text(300)
        #expect(
            refusal { _ = try FeedBodies.pull(body(#"{"\#(long)":1}"#)) }
                == "\"\(text(100))\" is unknown here; known are max, wait, consumer, max_held, resume, after")
        // Each verb accepts only its own members.
        #expect(refusal { _ = try FeedBodies.settlement(.ack, body(#"{"ids":[],"delay":"1s"}"#)) } != nil)
        #expect(refusal { _ = try FeedBodies.settlement(.extend, body(#"{"ids":[],"reason":"x"}"#)) } != nil)
        #expect(refusal { _ = try FeedBodies.deadLetters(body(#"{"id":"x"}"#)) } != nil)
        #expect(refusal { _ = try FeedBodies.seek(body(#"{"seq":1,"max":1}"#)) } != nil)
    }

    // MARK: Pulling

    @Test func pull() throws {
        let nothing = FeedBodies.Pull(
            most: 100, waitMilliseconds: 0, consumer: "", mostHeld: nil, resumes: false, after: nil)
        #expect(try FeedBodies.pull([]) == nothing)
        #expect(try FeedBodies.pull(body("{}")) == nothing)
        #expect(try FeedBodies.pull(body(" {} \n")) == nothing)
        let all = FeedBodies.Pull(
            most: 7, waitMilliseconds: 20_000, consumer: "é", mostHeld: 5, resumes: true, after: "default:1:0")
        let said = """
            {"max":7,"wait":"20s","consumer":"\\u00e9","max_held":5,"resume":true,"after":"default:1:0"}
            """
        #expect(try FeedBodies.pull(body(said)) == all)
    }

    @Test(arguments: [("max", 0, 1_000), ("max_held", 1, 100_000)])
    func pullsNumbers(_ name: String, _ least: Int, _ most: Int) throws {
        for number in [least, most] { _ = try FeedBodies.pull(body("{\"\(name)\":\(number)}")) }
        let outside = ["\(least - 1)", "\(most + 1)", "1.0", "1e2", "\"1\"", "null", "true", "[]", "{}"]
        for wrong in outside + ["9223372036854775808", "-9223372036854775809"] {
            #expect(
                refusal { _ = try FeedBodies.pull(body("{\"\(name)\":\(wrong)}")) }
                    == "\(name) must be a whole number from \(least) to \(most)", "\(wrong)")
        }
    }

    @Test func pullsTime() throws {
        for (text, time) in [("0s", 0), ("250ms", 250), ("20s", 20_000), ("1m", 60_000), ("60s", 60_000)] {
            #expect(try FeedBodies.pull(body("{\"wait\":\"\(text)\"}")).waitMilliseconds == Int64(time))
        }
        let outside = [
            "\"60001ms\"", "\"2m\"", "\"-1s\"", "\"1.5s\"", "\"20\"", "\"0\"", "\"\"", "20000", "null", "true",
        ]
        for wrong in outside + ["\"9223372036854775808ms\""] {
            #expect(
                refusal { _ = try FeedBodies.pull(body("{\"wait\":\(wrong)}")) }
                    == "wait must be a duration such as \"5s\", from 0s to 1m", "\(wrong)")
        }
    }

    @Test func pullsTexts() throws {
        for name in ["consumer", "after"] {
            _ = try FeedBodies.pull(body("{\"\(name)\":\"\(text(200))\"}"))
            // The limit counts bytes, not characters.
            for wrong in ["\"\(text(201))\"", "\"\(text(199))é\"", "1", "null", "[\"a\"]", "\"a\\u0000\""] {
                #expect(
                    refusal { _ = try FeedBodies.pull(body("{\"\(name)\":\(wrong)}")) }
                        == "\(name) must be a string of at most 200 bytes")
            }
        }
        for wrong in ["1", "\"true\"", "null"] {
            #expect(
                refusal { _ = try FeedBodies.pull(body("{\"resume\":\(wrong)}")) } == "resume must be true or false")
        }
    }

    // MARK: Settling

    @Test func settlements() throws {
        let ack = try FeedBodies.settlement(.ack, body(#"{"ids":["a","b"],"consumer":"c"}"#))
        #expect(ack == FeedBodies.Settlement(ids: ["a", "b"], consumer: "c", settlement: .acknowledge))
        let nack = try FeedBodies.settlement(.nack, body(#"{"ids":["a"]}"#))
        #expect(
            nack
                == FeedBodies.Settlement(
                    ids: ["a"], consumer: nil,
                    settlement: .reject(delayMilliseconds: nil, reason: "rejected by its consumer")))
        let later = try FeedBodies.settlement(.nack, body(#"{"ids":[],"delay":"0s","reason":""}"#))
        #expect(later.settlement == .reject(delayMilliseconds: 0, reason: ""))
        let extend = try FeedBodies.settlement(.extend, body(#"{"ids":["a"],"delay":"12h"}"#))
        #expect(extend.settlement == .extend(milliseconds: 43_200_000))
    }

    @Test(arguments: [FeedBodies.Verb.ack, .nack, .extend]) func settledIDs(_ verb: FeedBodies.Verb) throws {
        let rest = verb == .extend ? ",\"delay\":\"1ms\"" : ""
        #expect(try FeedBodies.settlement(verb, body("{\"ids\":\(ids(1_000))\(rest)}")).ids.count == 1_000)
        #expect(
            try FeedBodies.settlement(verb, body("{\"ids\":[\"\(text(300))\"]\(rest)}")).ids == [text(300)])
        for wrong in [ids(1_001), "\"a\"", "[1]", "[\"a\",null]", "{}", "null", "[[\"a\"]]", "[\"\(text(301))\"]"] {
            #expect(
                refusal { _ = try FeedBodies.settlement(verb, body("{\"ids\":\(wrong)\(rest)}")) }
                    == "ids must be a list of at most 1000 strings")
        }
        #expect(refusal { _ = try FeedBodies.settlement(verb, []) } == "ids is missing")
    }

    @Test func settlingsOtherMembers() {
        #expect(
            refusal { _ = try FeedBodies.settlement(.extend, body(#"{"ids":["a"]}"#)) } == "delay is missing")
        for verb in [FeedBodies.Verb.nack, .extend] {
            for wrong in ["\"-1s\"", "\"43200001ms\"", "\"1.5s\"", "\"1\"", "1", "null"] {
                #expect(
                    refusal { _ = try FeedBodies.settlement(verb, body("{\"ids\":[\"a\"],\"delay\":\(wrong)}")) }
                        == "delay must be a duration such as \"5s\", from 0s to 12h")
            }
        }
        #expect(
            refusal { _ = try FeedBodies.settlement(.nack, body("{\"ids\":[],\"reason\":\"\(text(2_001))\"}")) }
                == "reason must be a string of at most 2000 bytes")
    }

    // MARK: Between gateways

    /// Checks that members with numbers of milliseconds are accepted in forwarded requests only: gateways of the
    /// previous version forward the bodies of their clients, and understand no other form.
    @Test func gatewaysSayMilliseconds() throws {
        let pull = #"{"wait_ms":20000,"consumer":"c"}"#
        #expect(try FeedBodies.pull(body(pull), isForwarded: true).waitMilliseconds == 20_000)
        #expect(refusal { _ = try FeedBodies.pull(body(pull)) }?.hasPrefix("\"wait_ms\" is unknown here") == true)
        for (verb, settlement) in [
            (FeedBodies.Verb.nack, FeedSettlement.reject(delayMilliseconds: 5, reason: "rejected by its consumer")),
            (.extend, .extend(milliseconds: 5)),
        ] {
            let text = #"{"ids":["a"],"delay_ms":5}"#
            #expect(try FeedBodies.settlement(verb, body(text), isForwarded: true).settlement == settlement)
            #expect(refusal { _ = try FeedBodies.settlement(verb, body(text)) } != nil)
        }
        #expect(
            refusal { _ = try FeedBodies.settlement(.ack, body(#"{"ids":[],"delay_ms":5}"#), isForwarded: true) } != nil
        )
        // A gateway of a later version may use the form that clients use.
        #expect(try FeedBodies.pull(body(#"{"wait":"20s"}"#), isForwarded: true).waitMilliseconds == 20_000)
    }

    @Test func forwardedPulls() throws {
        let plain = try FeedBodies.pull(body(#"{"wait":"20s"}"#))
        #expect(String(decoding: plain.forwarded, as: UTF8.self) == #"{"max":100,"wait_ms":20000,"consumer":""}"#)
        let all = try FeedBodies.pull(
            body(#"{"max":0,"wait":"1m","consumer":"é\"","max_held":5,"resume":true,"after":"default:1:0"}"#))
        #expect(
            String(decoding: all.forwarded, as: UTF8.self)
                == #"{"max":0,"wait_ms":60000,"consumer":"é\"","max_held":5,"resume":true,"after":"default:1:0"}"#)
        #expect(try FeedBodies.pull(all.forwarded, isForwarded: true) == all)
    }

    @Test(arguments: [
        (FeedBodies.Verb.ack, #"{"ids":["a","b\""],"consumer":"c"}"#, #"{"ids":["a","b\""],"consumer":"c"}"#),
        (.ack, #"{"ids":[]}"#, #"{"ids":[]}"#),
        (.nack, #"{"ids":["a"],"delay":"5s","reason":"no"}"#, #"{"ids":["a"],"delay_ms":5000,"reason":"no"}"#),
        (.nack, #"{"ids":["a"]}"#, #"{"ids":["a"],"reason":"rejected by its consumer"}"#),
        (.extend, #"{"ids":["a"],"delay":"12h"}"#, #"{"ids":["a"],"delay_ms":43200000}"#),
    ])
    func forwardedSettlements(_ verb: FeedBodies.Verb, _ said: String, _ forwarded: String) throws {
        let settlement = try FeedBodies.settlement(verb, body(said))
        #expect(String(decoding: settlement.forwarded, as: UTF8.self) == forwarded)
        #expect(try FeedBodies.settlement(verb, settlement.forwarded, isForwarded: true) == settlement)
    }

    // MARK: Seeking

    @Test func seek() throws {
        #expect(try FeedBodies.seek(body(#"{"seq":0}"#)) == .seq(0))
        #expect(try FeedBodies.seek(body(#"{"seq":9223372036854775807}"#)) == .seq(.max))
        #expect(
            try FeedBodies.seek(body(#"{"time":"2026-11-22T10:00:00Z"}"#)) == .time("2026-11-22T10:00:00Z"))
        #expect(try FeedBodies.seek(body(#"{"to":"now"}"#)) == .now)
        #expect(try FeedBodies.seek(body(#"{"to":"beginning"}"#)) == .beginning)
        #expect(try FeedBodies.seek(body(#"{"to":"snapshot"}"#)) == .snapshot)
    }

    @Test(arguments: [
        "", "{}", #"{"to":"end"}"#, #"{"to":""}"#, #"{"seq":1,"to":"now"}"#, #"{"seq":1,"time":"2026-11-22"}"#,
        #"{"time":"2026-11-22","to":"now"}"#, #"{"seq":1,"time":"2026-11-22","to":"now"}"#, #"{"seq":-1}"#,
        #"{"seq":"1"}"#, #"{"time":1}"#, #"{"to":null}"#,
    ]) func seeksNowhere(_ text: String) {
        #expect(refusal { _ = try FeedBodies.seek(body(text)) } != nil)
    }

    // MARK: Dead messages

    @Test func deadLetters() throws {
        #expect(try FeedBodies.deadLetters(body(#"{"ids":["default:1:0"]}"#)) == .ids(["default:1:0"]))
        #expect(try FeedBodies.deadLetters(body(#"{"ids":[]}"#)) == .ids([]))
        #expect(try FeedBodies.deadLetters(body(#"{"key":""}"#)) == .key(""))
        #expect(try FeedBodies.deadLetters(body("{\"key\":\"\(text(24_000))\"}")) == .key(text(24_000)))
        #expect(try FeedBodies.deadLetters(body(#"{"all":true}"#)) == .all)
    }

    /// Checks that an incomplete or contradictory selection is refused, and does not select all dead messages.
    @Test(arguments: [
        "", "{}", #"{"all":false}"#, #"{"all":1}"#, #"{"all":null}"#, #"{"ids":[],"all":true}"#,
        #"{"key":"a","all":true}"#, #"{"key":"a","all":false}"#, #"{"ids":["a"],"key":"a"}"#, #"{"key":null}"#,
        #"{"ids":null}"#, #"{"ids":["a"],"all":false}"#,
    ]) func noDeadLetters(_ text: String) {
        #expect(refusal { _ = try FeedBodies.deadLetters(body(text)) } != nil)
    }
}
