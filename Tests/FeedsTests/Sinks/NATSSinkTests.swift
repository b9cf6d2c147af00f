import Runtime
import TestSupport
import Testing

@testable import Feeds

/// Tests of deliveries to streams of a real server.
@Suite struct NATSSinkTests {
    private let server: TestNATS
    private let producers = SinkProducers()

    init() throws {
        server = try TestNATS()
        try server.addStream("ORDERS", subjects: ["orders.>"])
    }

    private func sink(
        _ more: String = "", subject: String = "orders.{key}", isSequential: Bool = false,
        variable: (String) -> String? = { _ in nil }
    ) throws -> NATSSink {
        let text = #"{"url":"\#(server.url)","subject":"\#(subject)"\#(more)}"#
        let (definition, problems) = try read(text, "nats") {
            NATSDefinition.read($0, part: $1, problems: &$2)
        }
        #expect(problems == [])
        return try NATSSink(
            try #require(definition), isSequential: isSequential, namespace: "default", producers: producers,
            variable: variable)
    }

    @Test func messagesAreDelivered() throws {
        let sink = try sink()
        defer { sink.stop() }
        #expect(sink.answers([.order(1, key: "o1"), .order(2, key: "o 2")]) == [.delivered, .delivered])
        let stored = try server.messages(of: "ORDERS").sorted { $0.subject < $1.subject }
        #expect(stored.map(\.subject) == ["orders.o%202", "orders.o1"])
        let last = try #require(stored.last)
        #expect(last.body == #"{"n":1}"#)
        #expect(last.id == "orders/default:1:0")
        #expect(last.header("Pathmirror-Id") == "default:1:0")
        #expect(last.header("Pathmirror-Namespace") == "default")
        #expect(last.header("Pathmirror-Feed") == "orders")
        #expect(last.header("Pathmirror-Event") == "created")
        #expect(last.header("Pathmirror-Seq") == "1")
        #expect(sink.batchSize == 100 && sink.concurrency == 4 && sink.timeoutMilliseconds == 30_000)
    }

    @Test func anyKeyMakesASubject() throws {
        let sink = try sink()
        defer { sink.stop() }
        let keys = ["ü😀", "a b/*", ">", "", "%", "e\u{301}", String(repeating: "x", count: 768)]
        let outcomes = sink.answers(keys.enumerated().map { .order($0.offset, key: $0.element) })
        #expect(outcomes == Array(repeating: .delivered, count: keys.count))
        #expect(
            Set(try server.messages(of: "ORDERS").map(\.subject))
                == [
                    "orders.ü😀", "orders.a%20b.%2A", "orders.%3E", "orders._", "orders.%25", "orders.e\u{301}",
                    "orders." + keys[6],
                ])
        let long = SinkMessage.order(9, key: Array(repeating: keys[6], count: 5).joined(separator: "/"))
        #expect(sink.answers([long])?.first?.isRefusal == true)
    }

    /// Checks that a delivery ends within the time that a new owner of the feed waits, however slow the server is.
    @Test func aSlowServerEndsTheDelivery() throws {
        let sink = try sink(#","timeout":"1s""#)
        defer { sink.stop() }
        #expect(sink.answers([.order(1)]) == [.delivered])
        server.pause()
        let start = Clock.monotonicMilliseconds
        let outcomes = sink.answers([.order(2), .order(3), .order(4, key: "b")])
        let duration = Clock.monotonicMilliseconds - start
        server.resume()
        #expect(
            outcomes?.count == 3 && outcomes?[0].isFailure == true && outcomes?[1] == .notSent
                && outcomes?[2].isFailure == true)
        #expect(duration <= sink.timeoutMilliseconds)
        #expect(
            eventually {
                sink.answers([.order(2), .order(3), .order(4, key: "b")])?.allSatisfy { $0 == .delivered } == true
            })
        #expect(try server.messages(of: "ORDERS").count == 4)
    }

    @Test func noMessagesAreADelivery() throws {
        let sink = try sink()
        defer { sink.stop() }
        #expect(sink.answers([]) == [])
    }

    @Test func redeliveriesAreStoredOnce() throws {
        let sink = try sink()
        defer { sink.stop() }
        let messages = (1...20).map { SinkMessage.order($0, key: "k\($0 % 3)") }
        for _ in 1...3 {
            #expect(sink.answers(messages)?.allSatisfy { $0 == .delivered } == true)
        }
        #expect(try server.messages(of: "ORDERS").count == 20)
    }

    /// Checks that messages of two feeds with equal ids, for one entry, are both stored in a shared stream.
    @Test func feedsDoNotTakeOneAnothersIds() throws {
        let sink = try sink()
        defer { sink.stop() }
        #expect(sink.answers([.order(1)]) == [.delivered])
        #expect(sink.answers([.order(1, feed: "bills")]) == [.delivered])
        #expect(try server.messages(of: "ORDERS").count == 2)
    }

    @Test(arguments: [false, true])
    func orderIsKept(isSequential: Bool) throws {
        let sink = try sink(subject: "orders.all", isSequential: isSequential)
        defer { sink.stop() }
        let messages = (1...200).map { SinkMessage.order($0, key: "k\($0 % 7)") }
        #expect(sink.answers(messages)?.allSatisfy { $0 == .delivered } == true)
        let bodies = try server.messages(of: "ORDERS").map(\.body)
        #expect(bodies.count == 200)
        if isSequential { #expect(bodies == messages.map { String(decoding: $0.json, as: UTF8.self) }) }
        for key in 0..<7 {
            let ofKey = messages.filter { $0.key == "k\(key)" }.map { String(decoding: $0.json, as: UTF8.self) }
            #expect(bodies.filter(Set(ofKey).contains) == ofKey)
        }
        #expect(sink.concurrency == (isSequential ? 1 : 4))
    }

    /// Checks that messages after one that cannot be stored are not stored before it, and that other keys continue.
    @Test func aLargeMessageStopsItsKeyOnly() throws {
        let sink = try sink()
        defer { sink.stop() }
        let large = #"{"n":""# + String(repeating: "x", count: 2 << 20) + #""}"#
        let outcomes = try #require(
            sink.answers([
                .order(1, key: "a"), .order(2, key: "a", json: large), .order(3, key: "a"), .order(4, key: "b"),
            ]))
        #expect(
            outcomes[0] == .delivered && outcomes[1].isRefusal && outcomes[2] == .notSent && outcomes[3] == .delivered)
        #expect(Set(try server.messages(of: "ORDERS").map(\.body)) == [#"{"n":1}"#, #"{"n":4}"#])
    }

    @Test func aFullStreamIsTriedAgain() throws {
        try server.addStream("FULL", subjects: ["full"], maxMessages: 1)
        let sink = try sink(subject: "full")
        defer { sink.stop() }
        let outcomes = try #require(sink.answers([.order(1, key: "a"), .order(2, key: "a"), .order(3, key: "a")]))
        #expect(outcomes[0] == .delivered && outcomes[1].isFailure && outcomes[2] == .notSent, "\(outcomes)")
    }

    @Test func withoutAStreamItIsTriedAgain() throws {
        let sink = try sink(subject: "bills.{key}")
        defer { sink.stop() }
        let outcome = try #require(sink.answers([.order(1)])?.first)
        #expect(outcome.isFailure && outcome.reason.contains("bills.o1"), "\(outcome)")
        try server.addStream("BILLS", subjects: ["bills.>"])
        #expect(sink.answers([.order(1)]) == [.delivered])
    }

    @Test func anotherStreamIsNotTaken() throws {
        let sink = try sink(#","stream":"BILLS""#)
        defer { sink.stop() }
        #expect(sink.answers([.order(1)])?.first?.isFailure == true)
        #expect(try server.messages(of: "ORDERS").isEmpty)
    }

    @Test func theServerIsKilledInBetween() throws {
        let sink = try sink()
        defer { sink.stop() }
        let messages = (1...50).map { SinkMessage.order($0, key: "k\($0 % 5)") }
        #expect(sink.answers(Array(messages.prefix(10)))?.contains { $0 != .delivered } == false)
        server.kill()
        #expect(sink.answers(messages)?.contains(.delivered) == false)
        try server.restart()
        #expect(eventually { sink.answers(messages)?.contains { $0 != .delivered } == false })
        let stored = try server.messages(of: "ORDERS").map(\.id)
        #expect(stored.count == 50 && Set(stored).count == 50)
    }

    @Test func credentialsComeFromTheEnvironment() throws {
        let guarded = try TestNATS(["--auth", "s3cret"])
        let text = #"{"url":"\#(guarded.url)","subject":"a.{key}","token":"env:PATHMIRROR_SINK_TOKEN"}"#
        let (found, _) = try read(text, "nats") { NATSDefinition.read($0, part: $1, problems: &$2) }
        let definition = try #require(found)
        let make = { (variable: (String) -> String?) in
            try NATSSink(
                definition, isSequential: false, namespace: "default", producers: producers, variable: variable)
        }
        let sink = try make { $0 == "PATHMIRROR_SINK_TOKEN" ? "s3cret" : nil }
        defer { sink.stop() }
        #expect(sink.answers([.order(1)])?.first?.reason.contains("No JetStream stream") == true)
        let wrong = try make { _ in "wr0ng" }
        defer { wrong.stop() }
        let outcome = try #require(wrong.answers([.order(1)])?.first)
        #expect(outcome.isFailure && !outcome.reason.contains("wr0ng"), "\(outcome)")
        #expect(throws: SinkError.self) { _ = try make { _ in nil } }
        // A different credential requires a separate client.
        #expect(producers.count == 2)
    }

    @Test func stoppingAnswersRequestsInFlight() throws {
        let sink = try sink()
        #expect(sink.answers([.order(1)]) == [.delivered])
        server.pause()
        defer { server.resume() }
        let outcomes = Condition<[SinkOutcome]?>(nil)
        sink.deliver([.order(2), .order(3), .order(4, key: "b")]) { result in outcomes.broadcast { $0 = result } }
        sink.stop()
        let all = outcomes.wait(milliseconds: 60_000) { $0 }
        #expect(all == [.notSent, .notSent, .notSent])
    }
}
