import Runtime
import Testing
import Tree

@testable import Feeds

/// Tests of the request of a delivery.
@Suite struct WebhookRequestTests {
    private static func request(
        _ messages: [SinkMessage], _ format: WebhookDefinition.Format = .message, isBatch: Bool = false
    ) throws -> WebhookRequest {
        let keys = try WebhookSignatureTests.vectors.prefix(2).map { Secret(try WebhookSignature.key($0.secret)) }
        return try #require(
            WebhookRequest(
                messages, format: format, kind: .written, isBatch: isBatch, keys: keys, timestampSeconds: 1_763_805_600)
        )
    }

    private static func node(_ bytes: [UInt8]) throws -> Node { try JSONParser.parse(bytes).node }

    @Test func aMessageGoesAsItIs() throws {
        let message = SinkMessage.sample(1)
        let request = try Self.request([message])
        #expect(request.body == message.json)
        #expect(request.id == message.id)
        #expect(
            request.headers.map(\.name) == ["content-type", "webhook-id", "webhook-timestamp", "webhook-signature"])
        #expect(request.headers.prefix(3).map(\.value) == ["application/json", message.id, "1763805600"])
        #expect(request.headers[3].value.split(separator: " ").count == 2)
    }

    /// Checks that the signature covers the body that is sent.
    @Test(arguments: WebhookDefinition.Format.allCases, [false, true])
    func theBodyIsSigned(_ format: WebhookDefinition.Format, _ isBatch: Bool) throws {
        let key = Secret(try WebhookSignature.key(WebhookSignatureTests.vectors[0].secret))
        let messages = isBatch ? (0..<3).map { SinkMessage.sample($0) } : [.sample(0)]
        let request = try #require(
            WebhookRequest(
                messages, format: format, kind: .written, isBatch: isBatch, keys: [key], timestampSeconds: 9))
        #expect(
            request.headers.last?.value
                == WebhookSignature.header(id: request.id, timestampSeconds: 9, body: request.body, keys: [key]))
        _ = try Self.node(request.body)
    }

    @Test func batches() throws {
        let messages = (0..<3).map { SinkMessage.sample($0) }
        let request = try Self.request(messages, isBatch: true)
        let texts = messages.map { String(decoding: $0.json, as: UTF8.self) }.joined(separator: ",")
        #expect(String(decoding: request.body, as: UTF8.self) == "{\"messages\":[\(texts)]}")
        // The form does not depend on the number of messages.
        let alone = try Self.request([messages[0]], isBatch: true)
        #expect(String(decoding: alone.body, as: UTF8.self).hasPrefix("{\"messages\":[{"))
        #expect(alone.id == messages[0].id)
    }

    @Test func idsAreStableAndDistinguishDeliveries() {
        #expect(WebhookRequest.id(["default:42:0"]) == "default:42:0")
        let three = ["default:42:0", "default:42:1", "default:43:0"]
        #expect(WebhookRequest.id(three) == "batch_f8cc215e3ee82d513e5b8b25fcc6b26b")
        var seen: Set<String> = []
        for count in 1...3 {
            for first in 0...(3 - count) { seen.insert(WebhookRequest.id(Array(three[first..<(first + count)]))) }
        }
        // The remainder of a batch with the same first and last message has another id.
        seen.insert(WebhookRequest.id([three[0], three[2]]))
        #expect(seen.count == 7)
        // A dot would make the signed text ambiguous.
        #expect(seen.allSatisfy { !$0.contains(".") })
    }

    @Test func cloudEvents() throws {
        let message = SinkMessage.sample(1, key: "a/\"b\"", path: "/orders/é\"")
        let request = try Self.request([message], .cloudEvents)
        #expect(request.headers[0].value == "application/cloudevents+json")
        #expect(
            try Self.node(request.body)
                == Self.node(
                    Array(
                        """
                        {"specversion":"1.0","id":"default:1:0","source":"/default/feeds/orders","type":"pathmirror.record.created",
                         "subject":"/orders/é\\"","time":"2026-11-22T10:00:00.000Z","datacontenttype":"application/json",
                         "partitionkey":"a/\\"b\\"","data":{"id":"default:1:0","n":1}}
                        """.utf8)))
    }

    @Test func cloudEventsInBatches() throws {
        let messages = [SinkMessage.sample(1), .sample(2, key: "")]
        let request = try Self.request(messages, .cloudEvents, isBatch: true)
        #expect(request.headers[0].value == "application/cloudevents-batch+json")
        let events = try #require(RawJSON(request.body).elements)
        #expect(events.map(\.text) == messages.map { CloudEvent.encode($0) })
        // No attribute may be empty.
        #expect(events.map { $0.members?.contains { $0.key == "partitionkey" } } == [true, false])
    }
}
