import LogStore
import Runtime
import TestSupport
import Testing
import Tree

@testable import Feeds

/// Tests of entries with very many records, from a database.
@Suite struct WideEntryTests {
    private static let definition = #"{"path": "/a/{k}", "start": "beginning", "ack_deadline": "100ms"}"#

    private func ids(_ seq: Int64, _ count: Int) -> [String] { (0..<count).map { "test:\(seq):\($0)" } }

    @Test func tenThousandChildrenByOnePut() throws {
        try FeedBench.with { bench in
            // A thousand messages arrive together, and no message should expire because the machine is slow.
            try bench.apply("f", #"{"path": "/a/{k}", "start": "beginning", "ack_deadline": "1m"}"#)
            try bench.apply("narrow", #"{"path": "/b/{k}", "start": "beginning"}"#)
            try bench.serving({ $0.windowMessages = 700 }) { service in
                try bench.set("/", Node(children: [(Key("a"), SharedReaderBench.wide(10_000))]))
                try bench.set("/b/x", .int(1))
                // Other feeds continue meanwhile.
                let narrow = bench.consumer("narrow")
                try bench.drain(narrow, service)
                #expect(narrow.ids == ["test:2:0"])
                let consumer = bench.consumer("f")
                consumer.most = 1_000
                try bench.set("/a/k9999", .int(-1))
                try bench.drain(consumer, service)
                // A single consumer receives all messages in order.
                #expect(consumer.ids == ids(1, 10_000) + ["test:3:0"])
                #expect(consumer.repeated.isEmpty)
                let status = try bench.status("f")
                #expect(status.acknowledged == 10_001 && status.seq == 3 && status.deadLetters == 0, "\(status)")
                // All records are removed by one write.
                try bench.set("/a", .null)
                let rest = bench.consumer("f")
                try bench.drain(rest, service)
                #expect(rest.ids == ids(4, 10_000))
                #expect(rest.done.allSatisfy { $0.message.facts.event == "deleted" })
            }
        }
    }

    /// Checks several gateways in succession, each of which stops in the middle of the entry.
    @Test func takenOverInTheMiddle() throws {
        try FeedBench.with { bench in
            try bench.apply("f", Self.definition)
            try bench.set("/a/old", .int(1))
            try bench.set("/a", SharedReaderBench.wide(3_000))
            // These entries are read together with the wide one, and passed once it is complete.
            try bench.set("/a/k1", .int(-1))
            try bench.set("/a/k2", .int(-2))
            let consumer = bench.consumer("f")
            for round in 1...4 {
                try bench.serving({ $0.windowMessages = 400 }) { service in
                    #expect(consumer.consume([service]) { consumer.done.count >= round * 600 })
                    _ = consumer.receive(service)
                }
            }
            try bench.serving { service in try bench.drain(consumer, service) }
            #expect(Set(consumer.ids) == Set(["test:1:0"] + ids(2, 3_001) + ["test:3:0", "test:4:0"]))
            #expect(consumer.ids.count == 3_004 && consumer.repeated.isEmpty)
        }
    }

    /// Checks an import, whose changes are not in its entry, for feeds with several paths.
    @Test func anImport() throws {
        try FeedBench.with { bench in
            for feed in ["f", "g"] { try bench.apply(feed, Self.definition) }
            try bench.apply("deep", #"{"path": "/a/{k}/{field}", "start": "beginning"}"#)
            try bench.apply("not", #"{"path": "/a/{k}", "start": "beginning", "operations": ["set"]}"#)
            try bench.set("/a/k1", .int(1))
            try bench.set("/a/old", .int(1))
            try bench.serving({ $0.windowMessages = 500 }) { service in
                let early = bench.consumer("f")
                try bench.drain(early, service)
                #expect(early.ids == ["test:1:0", "test:2:0"])
                let record = try #require(try bench.log.namespace(named: "test"))
                let importer = try Importer(bench.log, record, at: Path(splitting: "a"))
                for number in 0..<2_500 { try importer.add(Array("/a/k\(number)/n".utf8), .int(Int64(number))) }
                try importer.finish()
                #expect(bench.namespace.waitFor(3))
                try bench.set("/a/k7/n", .int(-7))
                // The old records are removed by the import, which replaces the value at its path.
                try bench.drain(early, service)
                #expect(early.ids.dropFirst(2).elementsEqual(ids(3, 2_501) + ["test:4:0"]))
                let late = bench.consumer("g")
                try bench.drain(late, service)
                #expect(late.ids == early.ids && late.repeated.isEmpty)
                let deep = bench.consumer("deep")
                try bench.drain(deep, service)
                #expect(deep.ids == ids(3, 2_500) + ["test:4:0"])
                let not = bench.consumer("not")
                try bench.drain(not, service)
                #expect(not.ids == ["test:1:0", "test:2:0", "test:4:0"])
            }
        }
    }
}
