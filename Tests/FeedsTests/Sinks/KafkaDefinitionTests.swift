import JSONText
import Testing

@testable import Feeds

/// Tests of the member `kafka` of a feed.
@Suite struct KafkaDefinitionTests {
    private func definition(_ text: String, in form: DefinitionForm = .shown) throws -> KafkaDefinition {
        let (definition, problems) = try read(text, "kafka") {
            KafkaDefinition.read($0, in: form, part: $1, problems: &$2)
        }
        #expect(problems == [])
        return try #require(definition)
    }

    @Test func whatIsLeftOutHasADefault() throws {
        let plain = try definition(#"{"brokers":"a:9092,b:9093","topic":"orders"}"#)
        #expect(plain.brokers == ["a:9092", "b:9093"] && plain.properties.isEmpty)
        #expect(
            written { plain.write(&$0, as: .shown) }
                == #"{"brokers":["a:9092","b:9093"],"topic":"orders","batch":100,"concurrency":4,"timeout":"10s"}"#)
    }

    @Test func writtenAndReadItIsTheSame() throws {
        let text =
            #"{"brokers":"[::1]:9092","topic":"orders.v-1_a","properties":{"compression.type":"lz4","linger.ms":"20","#
            + #""sasl.password":"p4ss","sasl.username":"gateway","security.protocol":"sasl_ssl","ssl.ca.location":"env:PATHMIRROR_SINK_CA","#
            + #""ssl.key.password":"env:PATHMIRROR_SINK_KEY"},"batch":7,"concurrency":2,"timeout":"300ms"}"#
        let read = try definition(text)
        let stored = written { read.write(&$0, as: .stored) }
        #expect(stored.contains("p4ss") && stored.hasSuffix(#""timeout_ms":300}"#))
        #expect(try definition(stored, in: .stored) == read)
        #expect(written { read.write(&$0, as: .shown) } == text.replacing("p4ss", with: "(set)"))
        #expect(try definition(text) == read)
    }

    @Test func numbersAndBooleansArePropertiesToo() throws {
        let read = try definition(
            #"{"brokers":"a:1","topic":"t","properties":{"linger.ms":5,"socket.keepalive.enable":true}}"#)
        #expect(read.properties == ["linger.ms": SinkSecret("5"), "socket.keepalive.enable": SinkSecret("true")])
    }

    @Test(arguments: [
        (#""a""#, ["kafka: this should be an object, but is a string"]),
        (
            #"{"topic":"t"}"#,
            ["kafka.brokers: is missing: give the addresses of Kafka's brokers, such as localhost:9092"]
        ),
        (#"{"brokers":"a","topic":"t"}"#, [#"kafka.brokers: "a" is not HOST:PORT"#]),
        (
            #"{"brokers":["a:1","b:0",":2","u@c:1"],"topic":"t"}"#,
            [
                #"kafka.brokers: "b:0" is not HOST:PORT"#, #"kafka.brokers: ":2" is not HOST:PORT"#,
                #"kafka.brokers: "u@c:1" is not HOST:PORT"#,
            ]
        ),
        (#"{"brokers":"a:1"}"#, ["kafka.topic: is missing: name the topic of the messages"]),
        (
            #"{"brokers":"a:1","topic":"a b"}"#,
            ["kafka.topic: a topic's name has 1 to 249 letters, digits, points, _ and -"]
        ),
        (
            #"{"brokers":"a:1","topic":".."}"#,
            ["kafka.topic: a topic's name has 1 to 249 letters, digits, points, _ and -"]
        ),
        (
            #"{"brokers":"a:1","topic":"t","properties":[]}"#,
            ["kafka.properties: this should be an object, but is an array"]
        ),
        (
            #"{"brokers":"a:1","topic":"t","properties":{"linger.ms":null}}"#,
            ["kafka.properties.linger.ms: this should be a string, a number or a boolean"]
        ),
        (
            #"{"brokers":"a:1","topic":"t","properties":{"compression.type":"rar"}}"#,
            ["kafka.properties.compression.type: can't have this value"]
        ),
        (
            #"{"brokers":"a:1","topic":"t","properties":{"ssl.ca.location":"/etc/passwd"}}"#,
            [
                "kafka.properties.ssl.ca.location: this should be env:NAME, an environment variable of the gateway that names the file"
            ]
        ),
        (
            #"{"brokers":"a:1","topic":"t","properties":{"sasl.password":"(set)"}}"#,
            [
                #"kafka.properties.sasl.password: "(set)" stands for a hidden secret; write the secret itself or env:NAME"#
            ]
        ),
    ])
    func mistakesAreReported(_ text: String, _ expected: [String]) throws {
        let (definition, problems) = try read(text, "kafka") {
            KafkaDefinition.read($0, part: $1, problems: &$2)
        }
        #expect(definition == nil)
        #expect(problems == expected)
    }

    @Test(arguments: ["acks", "plugin.library.paths", "enable.idempotence", "bootstrap.servers"])
    func propertiesOfOursAreNotSet(_ name: String) throws {
        let text = #"{"brokers":"a:1","topic":"t","properties":{"\#(name)":"1"}}"#
        let (definition, problems) = try read(text, "kafka") {
            KafkaDefinition.read($0, part: $1, problems: &$2)
        }
        #expect(definition == nil)
        #expect(problems.count == 1 && problems[0].hasPrefix("kafka.properties.\(name): can't be set here"))
    }
}
