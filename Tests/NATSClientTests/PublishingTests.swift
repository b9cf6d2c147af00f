import NATSClient
import Runtime
import TestSupport
import Testing

/// Tests of messages and streams of a real server.
@Suite struct PublishingTests {
    private let server: TestNATS

    init() throws {
        server = try TestNATS()
        try server.addStream("ORDERS", subjects: ["orders.>"])
    }

    @Test func messagesAreStored() throws {
        let client = try NATSClient.to(server)
        var message = NATSMessage.order(1)
        message.headers = [.init("Pathmirror-Feed", "orders"), .init("Pathmirror-Event", "créé")]
        #expect(
            client.acknowledgement(message)
                == NATSAcknowledgement(stream: "ORDERS", sequence: 1, isDuplicate: false))
        let stored = try #require(try server.messages(of: "ORDERS").first)
        #expect(stored.subject == "orders.new")
        #expect(stored.id == "default:1:0")
        #expect(stored.body == #"{"n":1}"#)
        #expect(stored.header("Pathmirror-Feed") == "orders")
        #expect(stored.header("Pathmirror-Event") == "créé")
    }

    @Test func manyAtOnceAreStoredInOrder() throws {
        let client = try NATSClient.to(server)
        let done = Condition(0)
        for number in 1...500 {
            client.publish(.order(number)) { result in
                if case .success = result { done.broadcast { $0 += 1 } }
            }
        }
        #expect(done.wait(milliseconds: 60_000) { $0 == 500 ? true : nil } == true)
        #expect(try server.messages(of: "ORDERS").map(\.id) == (1...500).map { "default:\($0):0" })
    }

    @Test func aRepeatedIdIsStoredOnce() throws {
        let client = try NATSClient.to(server)
        #expect(client.acknowledgement(.order(1))?.isDuplicate == false)
        #expect(
            client.acknowledgement(.order(1))
                == NATSAcknowledgement(stream: "ORDERS", sequence: 1, isDuplicate: true))
        #expect(try server.messages(of: "ORDERS").count == 1)
    }

    @Test func anEmptyBodyIsOne() throws {
        let client = try NATSClient.to(server)
        #expect(client.acknowledgement(NATSMessage(subject: "orders.none", id: "1", body: [])) != nil)
        #expect(try server.messages(of: "ORDERS").map(\.body) == [""])
    }

    @Test func withoutAStreamNothingIsStored() throws {
        let client = try NATSClient.to(server)
        #expect(client.failure(.order(1, subject: "bills.new")) == .noStream(subject: "bills.new"))
        #expect(client.acknowledgement(.order(1)) != nil)
    }

    @Test func theExpectedStreamTakesItOrNone() throws {
        let client = try NATSClient.to(server)
        var message = NATSMessage.order(1)
        message.expectedStream = "BILLS"
        guard case .rejected(let code, _)? = client.failure(message) else {
            Issue.record("another stream took it")
            return
        }
        #expect(code == 10_060)
        message.expectedStream = "ORDERS"
        #expect(client.acknowledgement(message)?.sequence == 1)
    }

    @Test func aStreamTakesNoMoreThanItsSize() throws {
        try server.addStream("SMALL", subjects: ["small"], maxMessageBytes: 200)
        let client = try NATSClient.to(server)
        let large = NATSMessage(subject: "small", id: "1", body: [UInt8](repeating: 0x61, count: 1_000))
        let failure = try #require(client.failure(large))
        #expect(failure.isPermanent, "\(failure)")
        #expect(client.acknowledgement(NATSMessage(subject: "small", id: "2", body: [0x61])) != nil)
    }

    @Test func aServerTakesNoMoreThanItsSize() throws {
        let client = try NATSClient.to(server)
        let large = NATSMessage(subject: "orders.new", id: "1", body: [UInt8](repeating: 0x61, count: 2 << 20))
        let failure = try #require(client.failure(large))
        guard case .tooLarge(let bytes, let limit) = failure else {
            Issue.record("\(failure)")
            return
        }
        #expect(bytes > 2 << 20 && limit == 1 << 20)
        #expect(failure.isPermanent)
        #expect(client.acknowledgement(.order(2)) != nil, "the connection is still there")
    }

    @Test func whatCanNotBeSentIsRefused() throws {
        let client = try NATSClient.to(server)
        for subject in [
            "", "a b", "a..b", ".a", "a.", "a.*", ">", "a\r\nPUB x 0\r\n", String(repeating: "a", count: 4_000),
        ] {
            #expect(client.failure(NATSMessage(subject: subject, id: "1", body: []))?.isPermanent == true, "\(subject)")
        }
        var message = NATSMessage.order(1)
        message.headers = [.init("A", "b\r\nNats-Msg-Id: c")]
        #expect(client.failure(message)?.isPermanent == true)
        message.headers = [.init("A: b", "c")]
        #expect(client.failure(message)?.isPermanent == true)
        #expect(client.failure(NATSMessage(subject: "orders.new", id: "a\nb", body: []))?.isPermanent == true)
        #expect(try server.messages(of: "ORDERS").isEmpty)
    }
}
