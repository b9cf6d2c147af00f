import JSONText
import Runtime
import Testing
import Tree

@testable import Feeds

/// Tests of the definition of a webhook, and of the errors for mistakes.
@Suite struct WebhookDefinitionTests {
    private static let secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"

    private static func read(_ text: String, in form: DefinitionForm = .shown) throws -> (
        WebhookDefinition?, [DefinitionError.Problem]
    ) {
        var problems: [DefinitionError.Problem] = []
        let value = try SourceText.read(Array(text.utf8))
        let definition = WebhookDefinition.read(value, in: form, problems: &problems)
        return (definition, problems)
    }

    private static func text(_ definition: WebhookDefinition, as form: DefinitionForm) -> String {
        var writer = JSONWriter(form: .plain)
        definition.write(&writer, as: form)
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    @Test func defaults() throws {
        let (definition, problems) = try Self.read(
            #"{"url":"https://a.example/h","secrets":["env:PATHMIRROR_SINK_HOOK"]}"#)
        #expect(problems.isEmpty)
        #expect(
            Self.text(try #require(definition), as: .shown)
                == #"{"url":"https://a.example/h","secrets":["env:PATHMIRROR_SINK_HOOK"],"headers":{},"batch":1,"concurrency":4,"timeout":"10s","connect_timeout":"5s","format":"message"}"#
        )
        let (hasty, _) = try Self.read(
            #"{"url":"https://a.example/h","secrets":["env:PATHMIRROR_SINK_HOOK"],"timeout":"300ms"}"#)
        #expect(hasty?.connectTimeoutMilliseconds == 300)
    }

    @Test func whatIsReadIsWrittenAndReadAgain() throws {
        let text = """
            {"url":"http://billing.internal:8080/a?b=%20","secrets":["\(Self.secret)","env:PATHMIRROR_SINK_OLD"],\
            "headers":{"Authorization":"Bearer hunter2","X-Team":"env:PATHMIRROR_SINK_TEAM","X-Space":" a"},"batch":1000,"concurrency":64,\
            "timeout":"1m","connect_timeout":"100ms","format":"cloudevents"}
            """
        let (definition, problems) = try Self.read(text)
        #expect(problems.isEmpty)
        let read = try #require(definition)
        let stored = Self.text(read, as: .stored)
        #expect(stored.contains("hunter2") && stored.contains(#""timeout_ms":60000,"connect_timeout_ms":100"#))
        let (again, _) = try Self.read(stored, in: .stored)
        #expect(again == read)
        let shown = Self.text(read, as: .shown)
        for hidden in ["hunter2", Self.secret] { #expect(!shown.contains(hidden) && !"\(read)".contains(hidden)) }
        for member in [
            #""(set)","env:PATHMIRROR_SINK_OLD""#, #""Authorization":"(set)""#, #""X-Team":"env:PATHMIRROR_SINK_TEAM""#,
        ] {
            #expect(shown.contains(member))
        }
    }

    /// Checks that definitions are compared by their secrets.
    @Test func secretsAreCompared() throws {
        let define = { (secret: String) in
            try Self.read(#"{"url":"https://a.example/","secrets":["\#(secret)"]}"#).0
        }
        #expect(try define(Self.secret) == define(Self.secret))
        #expect(try define(Self.secret) != define("env:PATHMIRROR_SINK_A"))
        #expect(try define("env:PATHMIRROR_SINK_A") != define("env:PATHMIRROR_SINK_B"))
    }

    @Test(arguments: [
        ("[]", "webhook: this should be an object"), ("{}", "webhook.url: is missing"),
        ("{}", "webhook.secrets: are missing"), (#"{"uri":1}"#, "webhook.uri: is unknown here"),
        (#"{"url":1}"#, "webhook.url: this should be a string, but is a number"),
        (#"{"url":"/hooks"}"#, "webhook.url: is not an address"),
        (#"{"url":"a.example/h"}"#, "webhook.url: is not an address"),
        (#"{"url":"ftp://a.example/h"}"#, "webhook.url: must begin with https://"),
        (#"{"url":"https://"}"#, "webhook.url: must begin with https"),
        (#"{"url":"https://a.example/ b"}"#, "webhook.url: is not an address"),
        (#"{"url":"https://a.example/é"}"#, "webhook.url: is not an address"),
        (#"{"url":"https://a.example/\r\nX: 1"}"#, "webhook.url: is not an address"),
        (#"{"url":"https://me:hunter2@a.example/"}"#, "webhook.url: holds a name or password"),
        (#"{"secrets":"env:PATHMIRROR_SINK_A"}"#, "webhook.secrets: this should be an array"),
        (#"{"secrets":[]}"#, "webhook.secrets: this should be an array"),
        (
            #"{"secrets":["env:PATHMIRROR_SINK_A","env:PATHMIRROR_SINK_B","env:PATHMIRROR_SINK_C","env:PATHMIRROR_SINK_D","env:PATHMIRROR_SINK_E"]}"#,
            "webhook.secrets: this should be an array"
        ),
        (#"{"secrets":["env:PATHMIRROR_SINK_A","env:PATHMIRROR_SINK_A"]}"#, "webhook.secrets[1]: is listed twice"),
        (#"{"secrets":["env:"]}"#, "webhook.secrets[0]: env: needs"),
        (#"{"secrets":["env:A B"]}"#, "webhook.secrets[0]: env: needs"),
        (#"{"secrets":["env:PATHMIRROR_SINK_"]}"#, "webhook.secrets[0]: env: needs"),
        // Otherwise an author of feeds could have the gateway's own secrets sent to another server.
        (#"{"headers":{"X-A":"env:PATHMIRROR_DATABASE_URL"}}"#, "webhook.headers.X-A: env: needs"),
        (#"{"headers":{"X-A":""}}"#, "webhook.headers.X-A: is empty"),
        (#"{"secrets":["(set)"]}"#, "webhook.secrets[0]: \"(set)\" stands for"),
        (#"{"secrets":["hunter2"]}"#, "webhook.secrets[0]: a secret is whsec_"),
        (#"{"secrets":[7]}"#, "webhook.secrets[0]: this should be a string"),
        (#"{"headers":[]}"#, "webhook.headers: this should be an object"),
        (#"{"headers":{"":"a"}}"#, "webhook.headers: a header's name"),
        (#"{"headers":{"a b":"a"}}"#, "webhook.headers: a header's name"),
        (#"{"headers":{"a:b":"a"}}"#, "webhook.headers: a header's name"),
        (#"{"headers":{"a\r\n":"a"}}"#, "webhook.headers: a header's name"),
        (#"{"headers":{"Host":"a"}}"#, "webhook.headers.Host: is reserved for Pathmirror"),
        (#"{"headers":{"Webhook-Extra":"a"}}"#, "webhook.headers.Webhook-Extra: is reserved for Pathmirror"),
        (#"{"headers":{"X-A":"a","x-a":"b"}}"#, "webhook.headers.x-a: is listed twice"),
        (#"{"headers":{"X-A":"hunter2\r\nX-B: b"}}"#, "webhook.headers.X-A: a header has no control characters"),
        (#"{"headers":{"X-A":null}}"#, "webhook.headers.X-A: this should be a string"),
        (#"{"headers":{"X-A":"(set)"}}"#, "webhook.headers.X-A: \"(set)\" stands for"),
        (#"{"batch":0}"#, "webhook.batch: this should be a whole number from 1 to 1000"),
        (#"{"batch":1.5}"#, "webhook.batch: this"), (#"{"concurrency":65}"#, "webhook.concurrency: this"),
        (#"{"timeout":1000}"#, "webhook.timeout: this"), (#"{"timeout":"61s"}"#, "webhook.timeout: this"),
        (#"{"timeout_ms":1000}"#, "webhook.timeout_ms: is unknown here"),
        (#"{"timeout":"200ms","connect_timeout":"201ms"}"#, "webhook.connect_timeout: is part of timeout"),
        (#"{"format":"xml"}"#, "webhook.format: this should be one of message, cloudevents, firebase"),
        (#"{"format":"firebase","batch":2}"#, "webhook.batch: should be 1"),
        (#"{"format":"firebase","headers":{"CE-Id":"a"}}"#, "webhook.headers.CE-Id: is reserved for Pathmirror"),
    ]) func mistakes(_ text: String, _ expected: String) throws {
        let (definition, problems) = try Self.read(text)
        #expect(definition == nil)
        let texts = problems.map { "\($0.part): \($0.reason)" }
        #expect(texts.contains { $0.hasPrefix(expected) }, "\(texts)")
        #expect(!texts.contains { $0.contains("hunter2") }, "a mistake does not give a secret away")
        #expect(problems.allSatisfy { $0.position != nil })
    }

    @Test func tooManyHeaders() throws {
        let headers = (0..<21).map { #""X-\#($0)":"a""# }.joined(separator: ",")
        let (definition, problems) = try Self.read(
            #"{"url":"https://a.example/","secrets":["env:PATHMIRROR_SINK_A"],"headers":{\#(headers)}}"#)
        #expect(definition == nil && problems.map(\.part) == ["webhook.headers"])
    }
}
