import JSONText
import Runtime
import Testing

@testable import Feeds

/// Tests of the member `nats` of a feed.
@Suite struct NATSDefinitionTests {
    private func definition(_ text: String, in form: DefinitionForm = .shown) throws -> NATSDefinition {
        let (definition, problems) = try read(text, "nats") {
            NATSDefinition.read($0, in: form, part: $1, problems: &$2)
        }
        #expect(problems == [])
        return try #require(definition)
    }

    private func problems(_ text: String) throws -> [String] {
        let (definition, problems) = try read(text, "nats") {
            NATSDefinition.read($0, part: $1, problems: &$2)
        }
        #expect((definition == nil) == !problems.isEmpty)
        return problems
    }

    @Test func whatIsLeftOutHasADefault() throws {
        let plain = try definition(#"{"url":"nats://localhost:4222","subject":"orders.{key}"}"#)
        #expect(plain.credentials == .none && plain.stream == nil && plain.authorities == nil)
        #expect(
            written { plain.write(&$0, as: .shown) }
                == #"{"url":"nats://localhost:4222","subject":"orders.{key}","batch":100,"concurrency":4,"timeout":"10s"}"#
        )
    }

    @Test(arguments: [
        #"{"url":["nats://a:1","nats://b:2"],"subject":"a.{namespace}.{feed}.{key}","stream":"ORDERS","user":"u","password":"p4ss","ca":"env:PATHMIRROR_SINK_CA","batch":1,"concurrency":2,"timeout":"300ms"}"#,
        #"{"url":"tls://a:1","subject":"a","token":"t0ken","batch":1000,"concurrency":64,"timeout":"5m"}"#,
        #"{"url":"tls://a:1","subject":"a-{key}","credentials":"env:PATHMIRROR_SINK_CREDS","batch":100,"concurrency":4,"timeout":"10s"}"#,
        #"{"url":"tls://a:1","subject":"a","token":"env:PATHMIRROR_SINK_TOKEN","batch":100,"concurrency":4,"timeout":"10s"}"#,
    ])
    func writtenAndReadItIsTheSame(_ text: String) throws {
        let read = try definition(text)
        let stored = written { read.write(&$0, as: .stored) }
        #expect(stored.contains("p4ss") == text.contains("p4ss") && stored.contains("t0ken") == text.contains("t0ken"))
        #expect(try definition(stored, in: .stored) == read)
        let shown = written { read.write(&$0, as: .shown) }
        #expect(!shown.contains("p4ss") && !shown.contains("t0ken"))
        let masked = text.replacing("p4ss", with: "(set)").replacing("t0ken", with: "(set)")
        #expect(shown == masked)
    }

    @Test(arguments: [
        ("[]", ["nats: this should be an object, but is an array"]),
        (#"{"subject":"a"}"#, ["nats.url: is missing: give the address of NATS, such as nats://localhost:4222"]),
        (#"{"url":"http://a","subject":"a"}"#, ["nats.url: an address of NATS begins with nats:// or tls://"]),
        (
            #"{"url":"nats://u:p@a","subject":"a"}"#,
            ["nats.url: an address must not contain credentials: use user and password, token, or credentials"]
        ),
        (#"{"url":"nats://","subject":"a"}"#, ["nats.url: an address of NATS is nats://HOST:PORT"]),
        (#"{"url":"nats://a,b","subject":"a"}"#, ["nats.url: an address of NATS is nats://HOST:PORT"]),
        (#"{"url":[],"subject":"a"}"#, ["nats.url: this should be 1 to 20 strings"]),
        (#"{"url":["nats://a",1],"subject":"a"}"#, ["nats.url: this should be 1 to 20 strings"]),
        (#"{"url":"nats://a","subject":"a","stream":"A.B"}"#, ["nats.stream: \"A.B\" is not a valid stream name"]),
        (#"{"url":"nats://a","subject":"a","user":"u"}"#, ["nats.password: user and password go together"]),
        (#"{"url":"nats://a","subject":"a","password":"u"}"#, ["nats.user: user and password go together"]),
        (
            #"{"url":"nats://a","subject":"a","user":"u","password":"p","token":"t"}"#,
            ["nats.credentials: there are several logins: give user and password, or token, or credentials"]
        ),
        (
            #"{"url":"nats://a","subject":"a","credentials":"/etc/shadow"}"#,
            [
                "nats.credentials: this should be env:NAME, an environment variable of the gateway that holds the name of a .creds file"
            ]
        ),
        (
            #"{"url":"nats://a","subject":"a","token":"env:PATHMIRROR_DATABASE_URL"}"#,
            ["nats.token: env: needs an environment variable whose name begins with PATHMIRROR_SINK_"]
        ),
        (
            #"{"url":"nats://a","subject":"a","credentials":"env:PATHMIRROR_SINK_"}"#,
            ["nats.credentials: env: needs an environment variable whose name begins with PATHMIRROR_SINK_"]
        ),
        (
            #"{"url":"nats://a","subject":"a","token":"(set)"}"#,
            ["nats.token: \"(set)\" stands for a hidden secret; write the secret itself or env:NAME"]
        ),
        (#"{"url":"nats://a","subject":"a","token":7}"#, ["nats.token: this should be a string, but is a number"]),
        (
            #"{"url":"nats://a","subject":"a","batch":0,"concurrency":1.5,"timeout":"1"}"#,
            [
                "nats.batch: this should be a whole number from 1 to 1000",
                "nats.concurrency: this should be a whole number from 1 to 64",
                #"nats.timeout: this should be a duration such as "30s", from 100ms to 5m"#,
            ]
        ),
    ])
    func mistakesAreReported(_ text: String, _ expected: [String]) throws {
        #expect(try problems(text) == expected)
    }

    @Test func unknownMembersAreReported() throws {
        let problems = try problems(#"{"url":"nats://a","subject":"a","topic":"b"}"#)
        #expect(problems.count == 1 && problems[0].hasPrefix("nats.topic: is unknown here; known are url, subject"))
    }

    // MARK: Subjects

    @Test(arguments: [
        ("orders.{key}", "o1", "orders.o1"),
        ("orders.{key}", "room 1/m*2", "orders.room%201.m%2A2"),
        ("orders.{key}", "a.b/>/%", "orders.a%2Eb.%3E.%25"),
        ("orders.{key}", "a/\u{301}b", "orders.a.\u{301}b"),
        ("orders.{key}", "", "orders._"),
        ("orders.{key}", "é\u{7F}$", "orders.é%7F%24"),
        ("orders", "o1", "orders"),
        ("a-{feed}-{namespace}.x{key}", "k", "a-my%2Efeed-ns.xk"),
    ])
    func subjectsAreSafe(_ template: String, _ key: String, _ subject: String) throws {
        let message = SinkMessage(
            id: "i", namespace: "ns", feed: "my.feed", key: key, path: "/", event: "created", seq: 1, time: "",
            attempt: 1, json: [])
        #expect(try NATSSubject(template).subject(for: message) == subject)
    }

    @Test(arguments: [
        ".a", "a.", "a..b", "a b", "a.*", "a.>", "{key}", "{key}.a", "$JS.API.{key}", "_INBOX.a", "a.{keys}", "a.{key",
        "a}b",
        "a.{}",
    ])
    func otherTemplatesAreRefused(_ template: String) throws {
        let problems = try problems(#"{"url":"nats://a","subject":"\#(template)"}"#)
        #expect(problems.count == 1 && problems[0].hasPrefix("nats.subject: "), "\(problems)")
    }

    // MARK: Secrets

    @Test func variablesAreLookedUp() throws {
        let variables = ["PATHMIRROR_SINK_A": "s", "PATHMIRROR_SINK_EMPTY": "", "HOME": "h"]
        #expect(try SinkSecret("env:PATHMIRROR_SINK_A").value { variables[$0] }.revealed() == "s")
        #expect(try SinkSecret("plain").value { _ in nil }.revealed() == "plain")
        for name in ["PATHMIRROR_SINK_B", "PATHMIRROR_SINK_EMPTY", "HOME", ""] {
            #expect(throws: SinkError.self) { try SinkSecret("env:" + name).value { variables[$0] } }
        }
        #expect(!"\(SinkSecret("plain"))".contains("plain"))
    }
}
