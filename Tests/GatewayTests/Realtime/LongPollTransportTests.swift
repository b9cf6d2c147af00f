import HTTPServer
import TestSupport
import Testing
import Wire

@testable import Gateway

/// Tests of a long-polling client: which poll receives which answer.
@Suite struct LongPollTransportTests {
    private final class Bench {
        let test: TestLoop
        let transport: LoopBound<LongPollTransport>
        let events = LoopBound<[String]>([])

        init(_ test: TestLoop, maxBytes: Int = 10_000) throws {
            self.test = test
            let transport = LoopBound(LongPollTransport(password: "0123", maxBytes: maxBytes))
            self.transport = transport
            let events = events
            try test.on {
                transport.content.onEnd = { events.content.append("end") }
                transport.content.onDrain = { events.content.append("drain") }
                transport.content.onFinish = { events.content.append("finish") }
            }
        }

        func on<Value>(_ body: (LongPollTransport) throws -> Value) throws -> Value {
            let transport = transport
            return try test.on { try body(transport.content) }
        }

        /// Sends a poll and returns its client once the poll has arrived.
        func poll() throws -> WebClient {
            let client = try test.client()
            let exchange = try test.exchange(client, "GET", "/.lp").exchange
            let transport = transport
            try test.on {
                exchange.content.endsWithInput = true
                transport.content.poll(exchange.content.reference)
            }
            return client
        }

        func send(_ messages: String...) throws {
            try on { transport in for message in messages { _ = transport.send(Array(message.utf8)) } }
        }

        func answer(_ client: WebClient) throws -> String {
            let (status, headers) = try client.head()
            #expect(status == 200)
            #expect(headers["content-type"] == "application/javascript; charset=utf-8")
            #expect(headers["x-content-type-options"] == "nosniff")
            let length = try #require(headers["content-length"].flatMap { Int($0) })
            return try client.read(count: length)
        }

        func takeEvents() throws -> [String] {
            let events = events
            return try test.on {
                defer { events.content = [] }
                return events.content
            }
        }
    }

    private func withTransport(maxBytes: Int = 10_000, _ body: (Bench) throws -> Void) throws {
        try withLoop { test in try body(try Bench(test, maxBytes: maxBytes)) }
    }

    @Test func messagesWaitForAPoll() throws {
        try withTransport { bench in
            try bench.send("1", "2")
            #expect(try bench.on { $0.queuedBytes } == 2)
            #expect(try bench.answer(try bench.poll()) == "pRTLPCB(1,[1,2]);")
            #expect(try bench.on { $0.queuedBytes } == 0)
            #expect(try bench.takeEvents() == ["drain"])
        }
    }

    @Test func pollsWaitForMessages() throws {
        try withTransport { bench in
            let client = try bench.poll()
            try bench.send("1")
            #expect(try bench.answer(client) == "pRTLPCB(1,[1]);")
            try bench.send("2")
            #expect(try bench.answer(try bench.poll()) == "pRTLPCB(2,[2]);")
        }
    }

    /// Checks that the older of two polls is answered immediately: browsers limit the number of connections.
    @Test func theOlderPollIsAnswered() throws {
        try withTransport { bench in
            let (older, newer) = (try bench.poll(), try bench.poll())
            #expect(try bench.answer(older) == "pRTLPCB(1,[]);")
            try bench.send("1")
            #expect(try bench.answer(newer) == "pRTLPCB(2,[1]);")
        }
    }

    @Test func separatedMessagesComeInResponsesOfTheirOwn() throws {
        try withTransport { bench in
            try bench.send("1", "2")
            try bench.on { $0.separate() }
            try bench.on { $0.separate() }
            try bench.send("3")
            #expect(try bench.answer(try bench.poll()) == "pRTLPCB(1,[1,2]);")
            #expect(try bench.answer(try bench.poll()) == "pRTLPCB(2,[3]);")
        }
    }

    @Test func lostResponsesComeAgainAndFirst() throws {
        try withTransport { bench in
            let lost = LoopBound<LongPollTransport.Response?>(nil)
            try bench.on { $0.onLoss = { lost.content = $0 } }
            let client = try bench.poll()
            client.shutDown()
            // The exchange has ended before the answer is sent.
            try bench.test.settle()
            #expect(
                try eventually {
                    try bench.send("1")
                    return try bench.test.on { lost.content != nil }
                })
            try bench.on { transport in lost.content.map(transport.keep) }
            try bench.send("last")
            #expect(try bench.answer(try bench.poll()).hasPrefix("pRTLPCB(1,[1"))
            #expect(try bench.answer(try bench.poll()).hasSuffix("last]);"))
        }
    }

    @Test func clientsThatFetchNothingAreClosed() throws {
        try withTransport(maxBytes: 10) { bench in
            try bench.send("12345", "12345")
            #expect(try bench.takeEvents() == [])
            try bench.send("6")
            #expect(try bench.takeEvents() == ["end"])
        }
    }

    @Test func closingLetsPollsGo() throws {
        try withTransport { bench in
            let client = try bench.poll()
            try bench.on { $0.close() }
            #expect(try bench.answer(client) == "pLPCommand('close')")
            #expect(try bench.takeEvents() == ["end"])
            // Later polls get the same answer, and the transport ends only once.
            #expect(try bench.answer(try bench.poll()) == "pLPCommand('close')")
            try bench.on { $0.close() }
            try bench.send("1")
            #expect(try bench.takeEvents() == [])
            #expect(try bench.on { $0.queuedBytes } == 0)
        }
    }

    /// Checks that an upgraded client receives the remaining messages, and then the notice of the end.
    @Test func theLastResponseIsFollowedByTheEnd() throws {
        try withTransport { bench in
            try bench.send("1")
            try bench.on { $0.finish(with: Array("\"n\"".utf8)) }
            #expect(try bench.answer(try bench.poll()) == "pRTLPCB(1,[1,\"n\"]);")
            #expect(try bench.takeEvents() == ["drain"])
            #expect(try bench.answer(try bench.poll()) == "pLPCommand('close',1)")
            #expect(try bench.takeEvents() == ["finish"])
        }
    }

    @Test func pingsLetAPollGo() throws {
        try withTransport { bench in
            try bench.on { $0.ping() }
            let client = try bench.poll()
            try bench.on { $0.ping() }
            #expect(try bench.answer(client) == "pRTLPCB(1,[]);")
        }
    }

    @Test func framesAreMessagesWithCommasBetween() throws {
        let made = LongPollTransport.frames(for: [Array("1".utf8), Array("[2]".utf8)])
        #expect(made?.bytes == Array("1,[2]".utf8))
        #expect(!LongPollTransport.isWebSocket)
    }

    /// Checks that text that would end a script element or a line of it is escaped.
    @Test func answersAreSafeInAPage() throws {
        try withTransport { bench in
            try bench.send("\"</script>\u{2028}\"")
            let text = try bench.answer(try bench.poll())
            #expect(!text.contains("</script>") && !text.unicodeScalars.contains("\u{2028}"))
        }
    }

    @Test func theOpeningNamesTheCallback() {
        let text = String(
            decoding: LongPollTransport.opening(
                callback: "7", session: "abc", password: "def", hello: Array("{\"t\":1}".utf8)), as: UTF8.self)
        #expect(text.contains("pLPCommand7") && text.contains("pRTLPCB7"))
        #expect(text.contains("pLPCommand('start','abc','def');"))
        #expect(text.hasSuffix("pRTLPCB(0,[{\"t\":1}]);"))
    }
}

@Suite struct DisconnectFrameTests {
    @Test func thePageEndsTheSession() throws {
        let page = try #require(DisconnectFrame.page(id: "0a1f", password: "beef"))
        #expect(page.contains("\"/.lp?disconn=t&id=0a1f&pw=beef\""))
    }

    @Test(
        arguments: [
            (nil, "a"), ("a", nil), ("", "a"), ("a", ""), ("g", "a"), ("a", "A"), ("a\"", "a"), ("a", "</script>"),
        ] as [(String?, String?)])
    func nothingElseGetsIntoThePage(_ id: String?, _ password: String?) {
        #expect(DisconnectFrame.page(id: id, password: password) == nil)
    }
}
