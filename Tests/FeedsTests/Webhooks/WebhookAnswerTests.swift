import HTTPClient
import Testing

@testable import Feeds

/// Tests of the outcomes of messages, given their endpoint's answer.
@Suite struct WebhookAnswerTests {
    private static let messages = [
        SinkMessage.sample(1, key: "a"), .sample(2, key: "b"), .sample(3, key: "a"), .sample(4, key: "b"),
    ]

    private static func outcomes(
        _ status: Int, _ headers: [(name: String, value: String)] = [], _ body: String = "",
        isTruncated: Bool = false, for messages: [SinkMessage] = messages, isBatch: Bool = true
    ) -> [SinkOutcome] {
        let response = ClientResponse(
            status: status, headers: headers, body: Array(body.utf8), isTruncated: isTruncated)
        return WebhookAnswer.outcomes(
            .success(response), for: messages, isBatch: isBatch, nowUnixMilliseconds: 784_111_777_000)
    }

    private static func failed(_ reason: String, _ pause: Int64? = nil) -> SinkOutcome {
        .failed(reason: reason, retryAfterMilliseconds: pause)
    }

    @Test(arguments: [200, 201, 202, 204, 299]) func delivered(_ status: Int) {
        #expect(Self.outcomes(status) == Array(repeating: .delivered, count: 4))
    }

    @Test(arguments: [400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 504, 599, 999]) func failed(
        _ status: Int
    ) {
        let reason = "The endpoint answered with status \(status)."
        #expect(Self.outcomes(status) == Array(repeating: Self.failed(reason), count: 4))
        #expect(Self.outcomes(status, [("retry-after", "7")]) == Array(repeating: Self.failed(reason, 7_000), count: 4))
        let date = [(name: "retry-after", value: "Sun, 06 Nov 1994 08:49:40 GMT")]
        #expect(Self.outcomes(status, date).first == Self.failed(reason, 3_000))
        #expect(Self.outcomes(status, [("retry-after", "hunter2")]).first == Self.failed(reason))
    }

    @Test(arguments: [300, 301, 302, 303, 304, 307, 308]) func redirects(_ status: Int) {
        let reason = "The endpoint answered with status \(status); only 307 and 308 are followed."
        #expect(Self.outcomes(status, [("location", "https://hunter2/")]).first == Self.failed(reason))
    }

    @Test func unreachableOwnersAreNotAskedAgain() {
        let outcome = SinkOutcome.refused(reason: "The endpoint no longer exists: it answered with status 410.")
        #expect(Self.outcomes(410, [("retry-after", "7")]) == Array(repeating: outcome, count: 4))
    }

    @Test(arguments: [
        HTTPClientError.timedOut, .unreachable("x"), .insecure("x"), .tooManyRedirects, .failed("x"), .cancelled,
        .refused("x"),
    ]) func errors(_ error: HTTPClientError) {
        let outcomes = WebhookAnswer.outcomes(
            .failure(error), for: Self.messages, isBatch: true, nowUnixMilliseconds: 0)
        #expect(outcomes == Array(repeating: Self.failed(error.description), count: 4))
    }

    /// Checks that named messages fail, and that later messages of their keys count as not sent.
    @Test func partsOfABatch() {
        let named = Self.failed("The endpoint named the message as failed.")
        let after = SinkOutcome.notSent
        let outcomes = { (ids: String) in Self.outcomes(200, [], "{\"x\": [1], \"failed\": [\(ids)]}") }
        #expect(outcomes("\"default:1:0\"") == [named, .delivered, after, .delivered])
        #expect(outcomes("\"default:2:0\", \"default:3:0\"") == [.delivered, named, named, after])
        #expect(outcomes("\"default:4:0\"") == [.delivered, .delivered, .delivered, named])
        #expect(outcomes("\"default:\\u0031:0\"").first == named)
        #expect(Self.outcomes(202, [], #"{"failed":["default:1:0"]}"#, for: [Self.messages[0]]) == [named])
        // In the order of the namespace, keys make no difference.
        let response = ClientResponse(status: 200, headers: [], body: Array(#"{"failed":["default:2:0"]}"#.utf8))
        let inSequence = WebhookAnswer.outcomes(
            .success(response), for: Self.messages, isBatch: true, isSequential: true, nowUnixMilliseconds: 0)
        #expect(inSequence == [.delivered, named, after, after])
        // The body is read only if the status is a success.
        #expect(Self.outcomes(500, [], #"{"failed":["default:1:0"]}"#).allSatisfy { $0 != .delivered })
    }

    /// Checks bodies without a list, with an empty list, and of receivers that do not know batches.
    @Test(arguments: [
        "", " \r\n\t", "ok", "OK", "\u{0}", "null", "[]", "{}", " {} ", #"{"failed":[]}"#, #"{"failed":null}"#,
        #"{"failed": [ ] }"#, #"{"ok":true}"#, #"{"Failed":["default:1:0"]}"#, "<html>{\"failed\":[7]}</html>",
        "\"text\"", "true", "7",
    ]) func bodiesThatNameNoMessage(_ body: String) {
        #expect(Self.outcomes(200, [], body) == Array(repeating: .delivered, count: 4))
    }

    /// Checks that an invalid list fails the whole batch: to count it as success would lose the messages that it names.
    @Test(arguments: [
        (#"{"failed":"default:1:0"}"#, "has a string as \"failed\", which must be a list of ids"),
        (#"{"failed":7}"#, "has a number as \"failed\", which must be a list of ids"),
        (#"{"failed":true}"#, "has a boolean as \"failed\", which must be a list of ids"),
        (#"{"failed":{}}"#, "has an object as \"failed\", which must be a list of ids"),
        (#"{"failed":["default:1:0",7]}"#, "has a number in \"failed\", which must be a list of ids"),
        (#"{"failed":[null]}"#, "has null in \"failed\", which must be a list of ids"),
        (#"{"failed":[{"id":"default:1:0"}]}"#, "has an object in \"failed\", which must be a list of ids"),
        (#"{"failed":["default:1:0","default:9:0"]}"#, "names a message in \"failed\" that is not in the request"),
        (#"{"failed":["DEFAULT:1:0"]}"#, "names a message in \"failed\" that is not in the request"),
        (#"{"failed":["default:1:0"]"#, "is not JSON (line 1, column 26)"),
        (#"{"failed":["default:1:0"]} x"#, "is not JSON (line 1, column 28)"),
        (#"{"failed":[default:1:0]}"#, "is not JSON (line 1, column 12)"),
        (#"{"failed":[],"failed":["default:1:0"]}"#, "is not JSON (line 1, column 14)"),
        ("\n\t{", "is not JSON (line 2, column 3)"),
        (#"["default:1:0"]"#, "is a list instead of an object"),
        ("\u{FEFF}{\"failed\":[]}", "begins with a byte-order mark"), ("\u{FEFF}ok", "begins with a byte-order mark"),
    ]) func listsThatCannotBeRead(_ body: String, _ reason: String) {
        let sentence = "The endpoint's answer \(reason), so the failed messages are unknown."
        #expect(Self.outcomes(200, [], body) == Array(repeating: Self.failed(sentence), count: 4))
        // This includes a batch of one. Without batches the list is ignored.
        #expect(Self.outcomes(200, [], body, for: [Self.messages[0]]) == [Self.failed(sentence)])
        #expect(Self.outcomes(200, [], body, for: [Self.messages[0]], isBatch: false) == [.delivered])
    }

    /// Checks that a body with a JSON content type must be JSON.
    @Test(arguments: [
        "application/json", "Application/JSON; charset=utf-8", "text/json", "application/problem+json ; x",
    ])
    func textThatIsSaidToBeJSON(_ type: String) {
        let headers = [(name: "content-type", value: type)]
        #expect(Self.outcomes(200, headers, "ok").allSatisfy { $0 != .delivered })
        #expect(Self.outcomes(200, headers, "\"ok\"") == Array(repeating: .delivered, count: 4))
        #expect(Self.outcomes(200, headers, "") == Array(repeating: .delivered, count: 4))
        #expect(Self.outcomes(200, [("content-type", "text/plain")], "ok") == Array(repeating: .delivered, count: 4))
    }

    /// Checks that a list that is cut at any byte does not count as success.
    @Test func listsThatAreCut() {
        let whole = #"{"x":[1],"failed":["default:3:0"]}"#
        for count in 1..<whole.utf8.count {
            let outcomes = Self.outcomes(200, [], String(whole.prefix(count)))
            #expect(outcomes.allSatisfy { $0 != .delivered }, "cut behind \(count) bytes")
        }
    }

    @Test func answersThatAreTooLong() {
        #expect(Self.outcomes(200, [], "{", isTruncated: true).allSatisfy { $0 != .delivered })
        #expect(Self.outcomes(200, [], "{", isTruncated: true, for: [Self.messages[0]], isBatch: false) == [.delivered])
        #expect(Self.outcomes(200, [], "{", isTruncated: true, for: [Self.messages[0]]) != [.delivered])
        #expect(
            Self.outcomes(500, [], "{", isTruncated: true).first
                == Self.failed("The endpoint answered with status 500."))
    }
}
