import JSONText
import Runtime
import Testing
import Tree

@testable import Feeds

/// What people may write about a webhook, and what they are told of mistakes.
@Suite struct WebhookDefinitionTests {
    private static let secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"

    private static func read(_ text: String) throws -> (WebhookDefinition?, [DefinitionError.Problem]) {
        var problems: [DefinitionError.Problem] = []
        let value = try SourceText.read(Array(text.utf8))
        let definition = WebhookDefinition.read(value, problems: &problems)
        return (definition, problems)
    }

    private static func text(_ definition: WebhookDefinition, showsSecrets: Bool) -> String {
        var writer = JSONWriter(form: .plain)
        definition.write(&writer, showsSecrets: showsSecrets)
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    @Test func defaults() throws {
        let (definition, problems) = try Self.read(#"{"url":"https://a.example/h","secrets":["env:HOOK"]}"#)
        #expect(problems.isEmpty)
        #expect(
            Self.text(try #require(definition), showsSecrets: false)
                == #"{"url":"https://a.example/h","secrets":["env:HOOK"],"headers":{},"batch":1,"concurrency":4,"timeout_ms":10000,"connect_timeout_ms":5000,"format":"message"}"#
        )
        let (hasty, _) = try Self.read(#"{"url":"https://a.example/h","secrets":["env:HOOK"],"timeout_ms":300}"#)
        #expect(hasty?.connectTimeoutMilliseconds == 300)
    }

    @Test func whatIsReadIsWrittenAndReadAgain() throws {
        let text = """
            {"url":"http://billing.internal:8080/a?b=%20","secrets":["\(Self.secret)","env:OLD_SECRET"],\
            "headers":{"Authorization":"Bearer hunter2","X-Team":"env:TEAM","X-Empty":""},"batch":1000,"concurrency":64,\
            "timeout_ms":60000,"connect_timeout_ms":100,"format":"cloudevents"}
            """
        let (definition, problems) = try Self.read(text)
        #expect(problems.isEmpty)
        let read = try #require(definition)
        #expect(Self.text(read, showsSecrets: true) == text)
        let (again, _) = try Self.read(Self.text(read, showsSecrets: true))
        #expect(again == read)
        let shown = Self.text(read, showsSecrets: false)
        for hidden in ["hunter2", Self.secret] { #expect(!shown.contains(hidden) && !"\(read)".contains(hidden)) }
        for member in [#""(set)","env:OLD_SECRET""#, #""Authorization":"(set)""#, #""X-Team":"env:TEAM""#] {
            #expect(shown.contains(member))
        }
    }

    /// Only what was changed is another definition.
    @Test func secretsAreCompared() throws {
        let define = { (secret: String) in
            try Self.read(#"{"url":"https://a.example/","secrets":["\#(secret)"]}"#).0
        }
        #expect(try define(Self.secret) == define(Self.secret))
        #expect(try define(Self.secret) != define("env:A"))
        #expect(try define("env:A") != define("env:B"))
    }

    @Test(arguments: [
        ("[]", "webhook: this should be an object"), ("{}", "webhook.url: is missing"),
        ("{}", "webhook.secrets: are missing"), (#"{"uri":1}"#, "webhook.uri: is unknown here"),
        (#"{"url":1}"#, "webhook.url: this should be a string, but is a number"),
        (#"{"url":"/hooks"}"#, "webhook.url: is no address"), (#"{"url":"a.example/h"}"#, "webhook.url: is no address"),
        (#"{"url":"ftp://a.example/h"}"#, "webhook.url: is no address that begins with https://"),
        (#"{"url":"https://"}"#, "webhook.url: is no address"),
        (#"{"url":"https://a.example/ b"}"#, "webhook.url: is no address"),
        (#"{"url":"https://a.example/é"}"#, "webhook.url: is no address"),
        (#"{"url":"https://a.example/\r\nX: 1"}"#, "webhook.url: is no address"),
        (#"{"url":"https://me:hunter2@a.example/"}"#, "webhook.url: holds a name or password"),
        (#"{"secrets":"env:A"}"#, "webhook.secrets: this should be an array"),
        (#"{"secrets":[]}"#, "webhook.secrets: this should be an array"),
        (#"{"secrets":["env:A","env:B","env:C","env:D","env:E"]}"#, "webhook.secrets: this should be an array"),
        (#"{"secrets":["env:A","env:A"]}"#, "webhook.secrets[1]: is there twice"),
        (#"{"secrets":["env:"]}"#, "webhook.secrets[0]: env: needs"),
        (#"{"secrets":["env:A B"]}"#, "webhook.secrets[0]: env: needs"),
        (#"{"secrets":["env:1A"]}"#, "webhook.secrets[0]: env: needs"),
        (#"{"secrets":["(set)"]}"#, "webhook.secrets[0]: (set) only stands for"),
        (#"{"secrets":["hunter2"]}"#, "webhook.secrets[0]: a secret is whsec_"),
        (#"{"secrets":[7]}"#, "webhook.secrets[0]: this should be a string"),
        (#"{"headers":[]}"#, "webhook.headers: this should be an object"),
        (#"{"headers":{"":"a"}}"#, "webhook.headers: a header's name"),
        (#"{"headers":{"a b":"a"}}"#, "webhook.headers: a header's name"),
        (#"{"headers":{"a:b":"a"}}"#, "webhook.headers: a header's name"),
        (#"{"headers":{"a\r\n":"a"}}"#, "webhook.headers: a header's name"),
        (#"{"headers":{"Host":"a"}}"#, "webhook.headers.Host: is Pathmirror's own"),
        (#"{"headers":{"Webhook-Extra":"a"}}"#, "webhook.headers.Webhook-Extra: is Pathmirror's own"),
        (#"{"headers":{"X-A":"a","x-a":"b"}}"#, "webhook.headers.x-a: is there twice"),
        (#"{"headers":{"X-A":"hunter2\r\nX-B: b"}}"#, "webhook.headers.X-A: a header has no control characters"),
        (#"{"headers":{"X-A":null}}"#, "webhook.headers.X-A: this should be a string"),
        (#"{"headers":{"X-A":"(set)"}}"#, "webhook.headers.X-A: (set) only stands for"),
        (#"{"batch":0}"#, "webhook.batch: this should be a whole number from 1 to 1000"),
        (#"{"batch":1.5}"#, "webhook.batch: this"), (#"{"concurrency":65}"#, "webhook.concurrency: this"),
        (#"{"timeout_ms":"1s"}"#, "webhook.timeout_ms: this"), (#"{"timeout_ms":60001}"#, "webhook.timeout_ms: this"),
        (#"{"timeout_ms":200,"connect_timeout_ms":201}"#, "webhook.connect_timeout_ms: is part of timeout_ms"),
        (#"{"format":"xml"}"#, "webhook.format: this should be message or cloudevents"),
    ]) func mistakes(_ text: String, _ expected: String) throws {
        let (definition, problems) = try Self.read(text)
        #expect(definition == nil)
        let texts = problems.map { "\($0.part): \($0.reason)" }
        #expect(texts.contains { $0.hasPrefix(expected) }, "\(texts)")
        #expect(!texts.contains { $0.contains("hunter2") }, "a mistake does not give a secret away")
        #expect(problems.allSatisfy { $0.place != nil })
    }

    @Test func tooManyHeaders() throws {
        let headers = (0..<21).map { #""X-\#($0)":"a""# }.joined(separator: ",")
        let (definition, problems) = try Self.read(
            #"{"url":"https://a.example/","secrets":["env:A"],"headers":{\#(headers)}}"#)
        #expect(definition == nil && problems.map(\.part) == ["webhook.headers"])
    }
}
