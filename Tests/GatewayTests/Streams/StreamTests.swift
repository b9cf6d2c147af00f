import Engine
import Rules
import Runtime
import TestSupport
import Testing
import Tree

@testable import Engine
@testable import Gateway
@testable import HTTPServer

/// Tests of one event stream on a scripted connection: its output and order, for any order of events.
@Suite struct StreamTests {
    /// Provides streams with values when the test requests that.
    private final class Host: StreamHost {
        let conflations = Counter()
        /// The snapshots whose values the streams have requested.
        var wanted: [Snapshot] = []

        func sendValue(_ stream: Stream, _ snapshot: Snapshot) { wanted.append(snapshot) }
    }

    /// A stream at `/a`, and the output that its client receives.
    private final class Bench {
        let test: TestLoop
        let namespace = TestNamespace()
        let client: WebClient
        let stream: LoopBound<Stream>
        let host: LoopBound<Host>
        let group: ListenerGroup

        init(_ test: TestLoop, buffer: Int32? = nil) throws {
            self.test = test
            let group = ListenerGroup(
                ListenerKey(
                    namespace: NamespaceKey(id: 1), path: Path(splitting: "a"), query: nil,
                    encoding: .events(.plain, withIDs: true)),
                namespace.live)
            self.group = group
            client = try test.client(buffer: buffer)
            let exchange = try test.exchange(client).exchange
            let host = LoopBound(Host())
            self.host = host
            stream = LoopBound(
                try test.on {
                    exchange.content.startStream()
                    return Stream(
                        exchange.content, group, .anonymous(isLoopback: true), seq: 0, resumeID: nil, host.content)
                })
            _ = try client.head()
        }

        /// Delivers texts in place of events: `3;` for the event of entry 3.
        func deliver(_ seqs: Int64..., bufferBytes: Int = 1_000) throws {
            let events = seqs.map { EncodedEvents.Event(seq: $0, bytes: SharedBytes(Array("\($0);".utf8))) }
            let encoded = try #require(EncodedEvents(events))
            let stream = stream
            try test.on {
                var delivery = Stream.delivery(of: encoded)
                stream.content.deliver(&delivery, bufferBytes: bufferBytes)
            }
        }

        func begin(_ text: String, at seq: Int64) throws {
            let stream = stream
            try test.on { stream.content.begin(with: [SharedBytes(Array(text.utf8))], at: seq) }
        }

        func on<Value>(_ body: (Stream, Host) throws -> Value) throws -> Value {
            let (stream, host) = (stream, host)
            return try test.on { try body(stream.content, host.content) }
        }

        /// Returns all output up to a marker that this call sends.
        func sent() throws -> String {
            try on { stream, _ in stream.exchange.send(SharedBytes(Array("|".utf8))) }
            return String(try client.read(through: "|").dropLast())
        }

        /// Sends more than the connection can buffer.
        func fill() throws {
            try on { stream, _ in
                stream.exchange.send(SharedBytes(Array(repeating: UInt8(ascii: "x"), count: 4 << 20)))
                #expect(stream.exchange.queuedOutputBytes > 0)
            }
        }
    }

    private func withStream(buffer: Int32? = nil, _ body: (Bench) throws -> Void) throws {
        try withLoop { test in try body(try Bench(test, buffer: buffer)) }
    }

    // MARK: The value and later events

    @Test func eventsWaitForTheValue() throws {
        try withStream { bench in
            try bench.deliver(1)
            try bench.deliver(2, 3)
            #expect(try bench.sent() == "")
            try bench.begin("value;", at: 0)
            try bench.deliver(4)
            #expect(try bench.sent() == "value;1;2;3;4;")
            try bench.on { stream, _ in
                #expect(stream.isLive && stream.seq == 4)
            }
        }
    }

    /// Checks that events that waited for the value are skipped if the value already includes them.
    @Test(arguments: [(0, "v;1;2;3;4;"), (1, "v;2;3;4;"), (2, "v;3;4;"), (3, "v;4;"), (4, "v;"), (9, "v;")])
    func noEventComesTwice(_ seq: Int64, _ wanted: String) throws {
        try withStream { bench in
            try bench.deliver(1, 2)
            try bench.deliver(3, 4)
            try bench.begin("v;", at: seq)
            #expect(try bench.sent() == wanted)
        }
    }

    /// Checks that a live stream skips late events that its client has already seen: all, some or none of a batch.
    @Test(arguments: [(0, "v;1;2;3;"), (1, "v;2;3;"), (2, "v;3;"), (3, "v;"), (7, "v;")])
    func seenEventsAreSkipped(_ seq: Int64, _ wanted: String) throws {
        try withStream { bench in
            try bench.begin("v;", at: seq)
            try bench.deliver(1, 2, 3)
            #expect(try bench.sent() == wanted)
            try bench.on { stream, _ in #expect(stream.seq == max(seq, 3)) }
        }
    }

    @Test func streamsBeginOnce() throws {
        try withStream { bench in
            try bench.begin("v;", at: 1)
            try bench.begin("again;", at: 2)
            #expect(try bench.sent() == "v;")
        }
    }

    @Test func missedEventsGoOutInPieces() throws {
        try withStream { bench in
            try bench.deliver(6)
            try bench.on { stream, _ in
                stream.begin(with: ["4;", "5;"].map { SharedBytes(Array($0.utf8)) }, at: 5)
            }
            #expect(try bench.sent() == "4;5;6;")
        }
    }

    // MARK: Slow clients

    /// Checks that a partly sent event is completed, and that the newest value follows instead of the events in
    /// between.
    @Test func slowClientsAreConflated() throws {
        try withStream(buffer: 4_096) { bench in
            try bench.begin("v;", at: 0)
            try bench.fill()
            bench.namespace.commit((path: "a", value: .int(1)))
            try bench.deliver(1)
            try bench.deliver(2)
            try bench.on { stream, host in
                #expect(!stream.isLive && !stream.isOpening)
                #expect(host.conflations.current == 1, "once, not with every event")
                #expect(host.wanted.isEmpty, "not before the client has caught up")
                stream.exchange.onDrain = { stream.drained() }
            }
            bench.namespace.commit((path: "a", value: .int(2)))
            let test = bench.test
            let reader = Thread(name: "reader") { [client = LoopBound(bench.client)] in
                _ = try? client.content.read(through: "|")
            }
            let (stream, host) = (bench.stream, bench.host)
            #expect(try eventually { try test.on { host.content.wanted.map(\.seq) == [2] } })
            try test.on {
                #expect(stream.content.isOpening)
                stream.content.begin(with: [SharedBytes(Array("|".utf8))], at: 2)
                #expect(stream.content.isLive && stream.content.seq == 2)
            }
            reader.join()
        }
    }

    /// Checks that conflation ends immediately if the whole queue could be dropped.
    @Test func conflationWithNothingOnItsWayIsOverAtOnce() throws {
        try withStream { bench in
            try bench.begin("v;", at: 0)
            bench.namespace.commit((path: "a", value: .int(1)))
            try bench.deliver(1, bufferBytes: -1)
            try bench.on { stream, host in
                #expect(host.conflations.current == 1)
                #expect(host.wanted.map(\.seq) == [1])
                #expect(stream.isOpening)
            }
            try bench.begin("w;", at: 1)
            #expect(try bench.sent() == "v;1;w;")
        }
    }

    /// Checks that too many changes before the first value is sent cause a second value after the first.
    @Test func tooMuchWhileOpening() throws {
        try withStream { bench in
            bench.namespace.commit((path: "a", value: .int(1)), (path: "a", value: .int(2)))
            try bench.deliver(1, bufferBytes: 3)
            try bench.deliver(2, bufferBytes: 3)
            try bench.on { stream, host in
                #expect(stream.isOpening && host.conflations.current == 1 && host.wanted.isEmpty)
            }
            // This value is older than the dropped events.
            try bench.begin("old;", at: 0)
            try bench.on { stream, host in
                #expect(host.wanted.map(\.seq) == [2])
                #expect(stream.isOpening)
            }
            try bench.deliver(3)
            try bench.begin("new;", at: 2)
            #expect(try bench.sent() == "old;new;3;")
        }
    }

    @Test func eventsAreSkippedWhileLagging() throws {
        try withStream(buffer: 4_096) { bench in
            try bench.begin("v;", at: 0)
            try bench.fill()
            try bench.deliver(1)
            let queued = try bench.on { stream, _ in stream.exchange.queuedOutputBytes }
            for seq in 2...50 as ClosedRange<Int64> { try bench.deliver(seq) }
            #expect(try bench.on { stream, _ in stream.exchange.queuedOutputBytes } == queued)
        }
    }

    // MARK: Restarts

    @Test func restartsOfLiveStreams() throws {
        try withStream { bench in
            try bench.begin("v;", at: 3)
            bench.namespace.reset(to: .int(1), seq: 2)
            try bench.on { stream, host in
                stream.restart(from: bench.namespace.snapshot)
                #expect(stream.isOpening && host.wanted.map(\.seq) == [2])
            }
            try bench.deliver(3)
            try bench.begin("w;", at: 2)
            #expect(try bench.sent() == "v;w;3;", "seqs may step back with the history")
        }
    }

    /// Checks that a value in flight is ignored after a change of history, regardless of its seq: it may belong to the
    /// old history.
    @Test func restartsWhileOpening() throws {
        try withStream { bench in
            try bench.deliver(8)
            bench.namespace.reset(to: .int(1), seq: 5)
            try bench.on { stream, host in
                stream.restart(from: bench.namespace.snapshot)
                #expect(host.wanted.isEmpty)
            }
            try bench.begin("old;", at: 8)
            try bench.on { stream, host in
                #expect(host.wanted.map(\.seq) == [5])
                #expect(stream.isOpening)
            }
            try bench.begin("new;", at: 5)
            #expect(try bench.sent() == "old;new;")
        }
    }

    @Test func laggingStreamsStartAgainAnyway() throws {
        try withStream(buffer: 4_096) { bench in
            try bench.begin("v;", at: 0)
            try bench.fill()
            try bench.deliver(1)
            bench.namespace.reset(to: .int(1), seq: 5)
            try bench.on { stream, host in
                stream.restart(from: bench.namespace.snapshot)
                #expect(host.wanted.isEmpty && !stream.isOpening)
            }
        }
    }

    // MARK: The end

    @Test func shutOutClientsAreNotifiedAndClosed() throws {
        try withStream { bench in
            try bench.begin("v;", at: 0)
            try bench.on { stream, _ in stream.shutOut() }
            try bench.deliver(1)
            let text = try bench.client.read(through: "\n\n")
            #expect(text.hasPrefix("v;event: cancel\n"))
            #expect(bench.client.isAtEnd())
        }
    }

    /// Checks that queued output is dropped when the stream ends.
    @Test func endsDropWhatIsQueued() throws {
        try withStream(buffer: 4_096) { bench in
            try bench.begin("v;", at: 0)
            try bench.fill()
            try bench.on { stream, _ in
                for _ in 0..<10 { stream.exchange.send(SharedBytes(Array("secret;".utf8))) }
                stream.end(with: Array("end|".utf8))
            }
            let text = try bench.client.read(through: "|")
            #expect(text.hasSuffix("xend|") && !text.contains("secret"))
            #expect(bench.client.isAtEnd())
        }
    }

    @Test func namespacesThatEndCloseStreams() throws {
        try withStream { bench in
            try bench.begin("v;", at: 0)
            try bench.on { stream, _ in stream.namespaceEnded() }
            _ = try bench.client.read(through: "v;")
            #expect(bench.client.isAtEnd())
        }
    }

    @Test func closedStreamsTakeNothing() throws {
        try withStream { bench in
            try bench.begin("v;", at: 0)
            try bench.on { stream, _ in stream.closed() }
            try bench.deliver(1)
            try bench.begin("w;", at: 2)
            try bench.on { stream, host in
                stream.restart(from: bench.namespace.snapshot)
                stream.drained()
                #expect(host.wanted.isEmpty)
            }
            #expect(try bench.sent() == "v;")
        }
    }

    /// Checks that a client that applies a stream's output has the newest state in the end, and that between two values
    /// no seq appears twice or out of order. Compares random events, values of random ages and restarts with a plain
    /// model.
    @Test(arguments: 1...20 as ClosedRange<UInt64>)
    func anyOrderOfEventsAndValues(seed: UInt64) throws {
        try withStream { bench in
            var random = SeededGenerator(seed: seed)
            for _ in 0..<60 {
                switch random.below(4) {
                case 0, 1:
                    let seq = bench.namespace.commit((path: "a", value: .int(Int64(random.below(1_000)))))
                    try bench.deliver(seq, bufferBytes: random.oneIn(3) ? 8 : 1_000)
                case 2:
                    // A value of the present state, or an older one that a worker began to encode earlier.
                    let now = bench.namespace.snapshot.seq
                    let seq = random.oneIn(2) ? now : max(0, now - Int64(random.below(3)))
                    try bench.begin("v\(seq);", at: seq)
                default:
                    if random.oneIn(4) { try bench.on { stream, _ in stream.restart(from: bench.namespace.snapshot) } }
                }
            }
            // In the end the present value is requested, in flight, or already sent.
            let newest = bench.namespace.snapshot.seq
            for _ in 0..<3 where try bench.on({ stream, _ in stream.isOpening }) {
                try bench.begin("v\(newest);", at: newest)
            }
            try bench.on { stream, _ in #expect(stream.isLive && stream.seq == newest) }
            try Self.check(try bench.sent(), newest)
        }
    }

    private static func check(_ text: String, _ newest: Int64) throws {
        var at: Int64 = -1
        for part in text.split(separator: ";") {
            if part.first == "v" {
                at = try #require(Int64(part.dropFirst()))
            } else {
                let seq = try #require(Int64(part))
                #expect(seq == at + 1, "\(seq) follows \(at) in \(text)")
                at = seq
            }
        }
        #expect(at == newest, "\(text)")
    }
}
