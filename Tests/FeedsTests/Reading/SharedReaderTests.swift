import LogStore
import Testing
import Tree

@testable import Feeds

/// Tests of feeds that share a reader at the same entry: each finds its own messages, independently of the others.
@Suite struct SharedReaderTests {
    private func claims(_ reader: SharedReader) -> [Int64] { reader.feeds.map(\.claim.feed) }

    @Test func eachFindsItsOwn() throws {
        let orders = try SharedReaderBench.feed(1, "/orders/{id}")
        let states = try SharedReaderBench.feed(2, "/orders/{id}/state")
        let others = try SharedReaderBench.feed(3, "/others/{id}")
        var reader = SharedReader([orders, states, others], root: .null, at: LogPosition(seq: 6))
        let entry = SharedReaderBench.set(7, "/orders/o1", Node(children: [(Key("state"), .string("new"))]))
        let (found, left) = SharedReaderBench.pass(&reader, entry)
        #expect(left.isEmpty && found.map(\.claim.feed) == [1, 2, 3])
        #expect(found.map { $0.messages.map { $0.position.id(in: "d") } } == [["d:7:0"], ["d:7:0"], []])
        #expect(found.allSatisfy { $0.readTo?.seq == 7 && !$0.hasReadSnapshot })
        #expect(reader.cursor.seq == 7 && reader.root == SharedReaderBench.after(entry, .null))
    }

    @Test func operationsThatAFeedDoesNotTake() throws {
        let feed = try SharedReaderBench.feed(1, "/a/{k}") { $0.operations = [.remove] }
        var reader = SharedReader([feed], root: .null, at: LogPosition(seq: 0))
        let (found, _) = SharedReaderBench.pass(&reader, SharedReaderBench.set(1, "/a/x", .int(1)))
        #expect(found.map(\.messages.count) == [0] && found[0].readTo?.seq == 1)
        #expect(feed.window.available() == 1_000_000)
    }

    /// Checks that records that the definition excludes are numbered as well.
    @Test func numbersAreTheRecords() throws {
        let feed = try SharedReaderBench.feed(1, "/a/{k}") { try $0.filter("newData.val() % 3 == 1") }
        var reader = SharedReader([feed], root: .null, at: LogPosition(seq: 0))
        let (found, _) = SharedReaderBench.pass(&reader, SharedReaderBench.set(1, "/a", SharedReaderBench.wide(8)))
        #expect(found[0].messages.map(\.position.index) == [1, 4, 7])
        #expect(feed.window.available() == 1_000_000 - 3)
    }

    @Test func failedMessagesComeWithTheirContent() throws {
        let failed = FeedPosition(seq: 1, index: 2)
        let failedMessage = FailedMessage(
            position: failed, key: "k2", state: .failing, attempts: 3, failures: [], message: nil)
        let absent = FeedPosition(seq: 2, index: 0)
        let feed = try SharedReaderBench.feed(
            1, "/a/{k}", failedMessages: [failed: failedMessage, absent: failedMessage])
        var reader = SharedReader([feed], root: .null, at: LogPosition(seq: 0))
        let (found, _) = SharedReaderBench.pass(&reader, SharedReaderBench.set(1, "/a", SharedReaderBench.wide(5)))
        #expect(found[0].messages.count == 5)
        #expect(found[0].failedMessages.mapValues(\.attempts) == [failed: 3])
    }

    @Test func readersAtTheSameEntryAreJoined() throws {
        let first = try SharedReaderBench.feed(1, "/a/{k}")
        let second = try SharedReaderBench.feed(2, "/a/{k}")
        var reader = SharedReader([first], root: .null, at: LogPosition(seq: 3))
        reader.join(SharedReader([second], root: .null, at: LogPosition(seq: 3)))
        #expect(claims(reader) == [1, 2])
        let (found, _) = SharedReaderBench.pass(&reader, SharedReaderBench.set(4, "/a/x", .int(1)))
        #expect(SharedReaderBench.texts(found[0].messages) == SharedReaderBench.texts(found[1].messages))
        reader.remove(first.claim)
        #expect(claims(reader) == [2])
        reader.remove(first.claim)
        reader.remove(second.claim)
        #expect(reader.feeds.isEmpty && reader.isFull)
    }

    @Test func aFullFeedLeaves() throws {
        let small = try SharedReaderBench.feed(1, "/a/{k}", room: 1)
        let large = try SharedReaderBench.feed(2, "/a/{k}", room: 10)
        var reader = SharedReader([small, large], root: .null, at: LogPosition(seq: 0))
        #expect(reader.splitFull() == nil && !reader.isFull)
        let first = SharedReaderBench.set(1, "/a/x", .int(1))
        _ = SharedReaderBench.pass(&reader, first)
        let split = reader.splitFull()
        var full = try #require(split)
        #expect(claims(full) == [1] && claims(reader) == [2])
        #expect(full.isFull && !reader.isFull && full.cursor == reader.cursor && full.root == reader.root)
        // All feeds are full, so no other feed would be delayed.
        #expect(full.splitFull() == nil)
        // The separated feed continues at its entry.
        let second = SharedReaderBench.set(2, "/a/y", .int(2))
        let (ahead, _) = SharedReaderBench.pass(&reader, second)
        SharedReaderBench.takeIn(small, 1, room: 1)
        #expect(!full.isFull)
        let (after, _) = SharedReaderBench.pass(&full, second)
        #expect(SharedReaderBench.texts(after[0].messages) == SharedReaderBench.texts(ahead[0].messages))
        #expect(full.cursor == reader.cursor && full.root == reader.root)
    }

    /// Checks that an equal tree at another memory address changes nothing.
    @Test func aSharedTree() throws {
        let feed = try SharedReaderBench.feed(1, "/a/{k}")
        var reader = SharedReader([feed], root: .null, at: LogPosition(seq: 0))
        let first = SharedReaderBench.set(1, "/a", SharedReaderBench.wide(3))
        _ = SharedReaderBench.pass(&reader, first)
        reader.share(SharedReaderBench.after(SharedReaderBench.set(1, "/a", SharedReaderBench.wide(3)), .null))
        let (found, _) = SharedReaderBench.pass(&reader, SharedReaderBench.set(2, "/a/k1", .int(7)))
        #expect(found[0].messages.map(\.key) == ["k1"])
    }
}
