import HTTPClient
import Testing

@testable import Feeds

/// Checks that feeds deliver only to servers that the operator has allowed.
@Suite struct SinkHostTests {
    @Test(arguments: [
        ("nats://nats.internal:4222", "nats.internal"), ("tls://nats.internal", "nats.internal"),
        ("kafka-1:9092", "kafka-1"), ("10.0.0.7:9092", "10.0.0.7"), ("[::1]:9092", "::1"),
        ("nats://[fd00::7]", "fd00::7"),
        // An ambiguous address never matches an allowed name.
        ("::1:9092", "::1:9092"), ("[::1]x:1", "[::1]x:1"), ("[::1", "[::1"),
    ])
    func names(_ server: String, _ name: String) { #expect(SinkHost.name(ofServer: server) == name) }

    @Test(arguments: [
        (#""nats":{"url":"nats://localhost:1","subject":"a"}"#, "localhost", true),
        (#""nats":{"url":"nats://LOCALHOST.:1","subject":"a"}"#, "localhost", true),
        (#""nats":{"url":"nats://10.0.0.7:1","subject":"a"}"#, "10.0.0.0/8", true),
        (#""nats":{"url":"nats://localhost:1","subject":"a"}"#, "127.0.0.0/8", false),
        (#""nats":{"url":["nats://localhost:1","nats://other:1"],"subject":"a"}"#, "localhost", false),
        (#""nats":{"url":"nats://localhost:1","subject":"a"}"#, "", false),
        (#""kafka":{"brokers":"10.0.0.7:1","topic":"a"}"#, "10.0.0.7", true),
        (#""kafka":{"brokers":"10.0.0.7:1,10.0.0.8:1","topic":"a"}"#, "10.0.0.7", false),
        (#""kafka":{"brokers":"169.254.169.254:80","topic":"a"}"#, "localhost", false),
    ])
    func servers(_ sink: String, _ allowed: String, _ isMade: Bool) throws {
        let client = try HTTPClient()
        defer { client.stop() }
        let maker = SinkMaker(client: client, exceptions: .init(), servers: try .init(allowed), environment: [:])
        let definition = try FeedDefinition.read(Array(#"{"path":"/a/{x}",\#(sink)}"#.utf8), name: "f")
        if isMade {
            try maker.make(definition, in: "default")?.stop()
        } else {
            #expect {
                _ = try maker.make(definition, in: "default")
            } throws: {
                "\($0)".contains("is not among the servers that feeds may deliver to (--sink-allow)")
            }
        }
    }
}
