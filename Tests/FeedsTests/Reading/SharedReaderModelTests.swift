import LogStore
import TestSupport
import Testing
import Tree

@testable import Feeds

/// Checks that each feed finds the same messages as alone, once and in order, for random entries, changing budgets, and
/// shared readers that split and join.
@Suite struct SharedReaderModelTests {
    private struct Reading {
        var reader: SharedReader
        /// The index of the next entry.
        var next: Int
    }

    private struct World {
        var random: SeededGenerator
        let entries: [Entry]
        let feeds: [SharedReaderFeed]
        var readings: [Reading]
        var found: [FeedClaim: [FeedMessage]] = [:]
        var readTo: [FeedClaim: Int64] = [:]
        /// Messages that the dispatcher has not accepted yet.
        var inFlight: [FeedClaim: Int] = [:]

        mutating func note(_ findings: [FoundMessages]) {
            for finding in findings {
                found[finding.claim, default: []] += finding.messages
                inFlight[finding.claim, default: 0] += finding.messages.count
                guard let cursor = finding.readTo else { continue }
                #expect(cursor.seq >= readTo[finding.claim] ?? 0)
                readTo[finding.claim] = cursor.seq
            }
        }

        /// Takes a step of one reader. Returns false if it has nothing to do.
        mutating func step(_ index: Int) -> Bool {
            if readings[index].reader.isWide {
                guard let finding = readings[index].reader.resume() else { return false }
                note([finding])
                return true
            }
            if let full = readings[index].reader.splitFull() {
                readings.append(Reading(reader: full, next: readings[index].next))
            }
            guard !readings[index].reader.isFull, readings[index].next < entries.count else { return false }
            let (findings, left) = SharedReaderBench.pass(&readings[index].reader, entries[readings[index].next])
            readings[index].next += 1
            for reader in left { readings.append(Reading(reader: reader, next: readings[index].next)) }
            note(findings)
            return true
        }

        mutating func joinLevel() {
            readings.removeAll { $0.reader.feeds.isEmpty }
            var kept: [Reading] = []
            for reading in readings {
                let level = kept.firstIndex {
                    !$0.reader.isWide && !reading.reader.isWide && $0.next == reading.next && random.oneIn(2)
                }
                if let level {
                    #expect(kept[level].reader.root == reading.reader.root)
                    kept[level].reader.join(reading.reader)
                } else {
                    kept.append(reading)
                }
            }
            readings = kept
        }

        mutating func takeIn() {
            for feed in feeds where random.oneIn(2) {
                SharedReaderBench.takeIn(feed, inFlight[feed.claim] ?? 0, room: random.below(400))
                inFlight[feed.claim] = 0
            }
        }
    }

    private static let patterns = ["/a/{x}", "/{x}", "/{x}/{y}", "/w/{x}", "/{x}/{y}/b"]

    private func world(_ seed: UInt64) throws -> World {
        var tree = TreeGenerator(seed: seed)
        let entries = (1...30 as ClosedRange<Int64>).map { seq -> Entry in
            // Sometimes an entry that takes several steps.
            if tree.random.oneIn(6) {
                return SharedReaderBench.set(seq, "/w", SharedReaderBench.wide(tree.random.below(2_600)))
            }
            return SharedReaderBench.set(seq, tree.path(maxDepth: 3).description, tree.tree(depth: 3))
        }
        let feeds = try (1...4 as ClosedRange<Int64>).map { id in
            try SharedReaderBench.feed(id, tree.random.pick(Self.patterns), room: 1 + tree.random.below(300))
        }
        return World(
            random: tree.random, entries: entries, feeds: feeds,
            readings: [Reading(reader: SharedReader(feeds, root: .null, at: LogPosition(seq: 0)), next: 0)])
    }

    @Test(arguments: 0..<12) func asIfAlone(_ seed: UInt64) throws {
        var world = try world(seed)
        for _ in 0..<20_000 {
            var isBusy = false
            for index in world.readings.indices where world.step(index) { isBusy = true }
            world.joinLevel()
            if !isBusy, world.readTo.values.allSatisfy({ $0 == 30 }), world.readTo.count == 4 { break }
            world.takeIn()
        }
        for feed in world.feeds {
            let wanted = SharedReaderBench.messages(feed, world.entries)
            #expect(
                SharedReaderBench.texts(world.found[feed.claim] ?? []) == SharedReaderBench.texts(wanted),
                "seed \(seed), \(feed.matcher.definition.pattern)")
            #expect(world.readTo[feed.claim] == 30, "seed \(seed)")
        }
    }
}
