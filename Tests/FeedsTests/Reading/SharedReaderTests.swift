import LogStore
import Testing
import Tree

@testable import Feeds

/// Tests of feeds that share a reader at the same entry: each finds its own messages, independently of the others.
@Suite struct SharedReaderTests {
    private func claims(_ lane: SharedReader) -> [Int64] { lane.feeds.map(\.claim.feed) }

    @Test func eachFindsItsOwn() throws {
        let orders = try LaneBench.feed(1, "/orders/{id}")
        let states = try LaneBench.feed(2, "/orders/{id}/state")
        let others = try LaneBench.feed(3, "/others/{id}")
        var lane = SharedReader([orders, states, others], root: .null, at: LogCursor(seq: 6))
        let entry = LaneBench.set(7, "/orders/o1", Node(children: [(Key("state"), .string("new"))]))
        let (found, left) = LaneBench.pass(&lane, entry)
        #expect(left.isEmpty && found.map(\.claim.feed) == [1, 2, 3])
        #expect(found.map { $0.messages.map { $0.position.id(in: "d") } } == [["d:7:0"], ["d:7:0"], []])
        #expect(found.allSatisfy { $0.readTo?.seq == 7 && !$0.hasReadSnapshot })
        #expect(lane.cursor.seq == 7 && lane.root == LaneBench.after(entry, .null))
    }

    @Test func operationsThatAFeedDoesNotTake() throws {
        let feed = try LaneBench.feed(1, "/a/{k}") { $0.operations = [.remove] }
        var lane = SharedReader([feed], root: .null, at: LogCursor(seq: 0))
        let (found, _) = LaneBench.pass(&lane, LaneBench.set(1, "/a/x", .int(1)))
        #expect(found.map(\.messages.count) == [0] && found[0].readTo?.seq == 1)
        #expect(feed.window.available() == 1_000_000)
    }

    /// Checks that records that the definition excludes are numbered as well.
    @Test func numbersAreTheRecords() throws {
        let feed = try LaneBench.feed(1, "/a/{k}") { try $0.filter("newData.val() % 3 == 1") }
        var lane = SharedReader([feed], root: .null, at: LogCursor(seq: 0))
        let (found, _) = LaneBench.pass(&lane, LaneBench.set(1, "/a", LaneBench.wide(8)))
        #expect(found[0].messages.map(\.position.index) == [1, 4, 7])
        #expect(feed.window.available() == 1_000_000 - 3)
    }

    @Test func lettersComeWithTheirMessages() throws {
        let failed = FeedPosition(seq: 1, index: 2)
        let letter = FailedMessage(
            position: failed, key: "k2", state: .failing, attempts: 3, failures: [], message: nil)
        let absent = FeedPosition(seq: 2, index: 0)
        let feed = try LaneBench.feed(1, "/a/{k}", letters: [failed: letter, absent: letter])
        var lane = SharedReader([feed], root: .null, at: LogCursor(seq: 0))
        let (found, _) = LaneBench.pass(&lane, LaneBench.set(1, "/a", LaneBench.wide(5)))
        #expect(found[0].messages.count == 5)
        #expect(found[0].letters.mapValues(\.attempts) == [failed: 3])
    }

    @Test func lanesAtTheSameEntryAreJoined() throws {
        let first = try LaneBench.feed(1, "/a/{k}")
        let second = try LaneBench.feed(2, "/a/{k}")
        var lane = SharedReader([first], root: .null, at: LogCursor(seq: 3))
        lane.join(SharedReader([second], root: .null, at: LogCursor(seq: 3)))
        #expect(claims(lane) == [1, 2])
        let (found, _) = LaneBench.pass(&lane, LaneBench.set(4, "/a/x", .int(1)))
        #expect(LaneBench.texts(found[0].messages) == LaneBench.texts(found[1].messages))
        lane.remove(first.claim)
        #expect(claims(lane) == [2])
        lane.remove(first.claim)
        lane.remove(second.claim)
        #expect(lane.feeds.isEmpty && lane.isFull)
    }

    @Test func whoIsFullLeaves() throws {
        let small = try LaneBench.feed(1, "/a/{k}", room: 1)
        let large = try LaneBench.feed(2, "/a/{k}", room: 10)
        var lane = SharedReader([small, large], root: .null, at: LogCursor(seq: 0))
        #expect(lane.splitFull() == nil && !lane.isFull)
        let first = LaneBench.set(1, "/a/x", .int(1))
        _ = LaneBench.pass(&lane, first)
        let split = lane.splitFull()
        var full = try #require(split)
        #expect(claims(full) == [1] && claims(lane) == [2])
        #expect(full.isFull && !lane.isFull && full.cursor == lane.cursor && full.root == lane.root)
        // All feeds are full, so no other feed would be delayed.
        #expect(full.splitFull() == nil)
        // The separated feed continues at its entry.
        let second = LaneBench.set(2, "/a/y", .int(2))
        let (ahead, _) = LaneBench.pass(&lane, second)
        LaneBench.takeIn(small, 1, room: 1)
        #expect(!full.isFull)
        let (behind, _) = LaneBench.pass(&full, second)
        #expect(LaneBench.texts(behind[0].messages) == LaneBench.texts(ahead[0].messages))
        #expect(full.cursor == lane.cursor && full.root == lane.root)
    }

    /// Checks that an equal tree at another memory address changes nothing.
    @Test func aSharedTree() throws {
        let feed = try LaneBench.feed(1, "/a/{k}")
        var lane = SharedReader([feed], root: .null, at: LogCursor(seq: 0))
        let first = LaneBench.set(1, "/a", LaneBench.wide(3))
        _ = LaneBench.pass(&lane, first)
        lane.share(LaneBench.after(LaneBench.set(1, "/a", LaneBench.wide(3)), .null))
        let (found, _) = LaneBench.pass(&lane, LaneBench.set(2, "/a/k1", .int(7)))
        #expect(found[0].messages.map(\.key) == ["k1"])
    }
}
