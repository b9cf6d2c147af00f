import LogStore
import Testing
import Tree

@testable import Feeds

/// Tests of entries and snapshots with more records than are processed at once.
@Suite struct WideSharedReaderTests {
    /// Continues until the entry is complete. Checks that each step processes at most a thousand records.
    private func resume(_ reader: inout SharedReader) -> [FoundMessages] {
        var found: [FoundMessages] = []
        while reader.isWide, let finding = reader.resume() {
            #expect(finding.messages.count <= 1_000)
            // Only the last step reports the entry as read.
            #expect((finding.readTo == nil) == reader.isWide)
            found.append(finding)
        }
        return found
    }

    @Test(arguments: [999, 1_000, 1_001, 2_500]) func aWideEntry(_ count: Int) throws {
        let feed = try SharedReaderBench.feed(1, "/a/{k}")
        let narrow = try SharedReaderBench.feed(2, "/a/k7")
        var reader = SharedReader([feed, narrow], root: .null, at: LogPosition(seq: 4))
        let entry = SharedReaderBench.set(5, "/a", SharedReaderBench.wide(count))
        var (found, left) = SharedReaderBench.pass(&reader, entry)
        #expect(reader.feeds.map(\.claim.feed) == (count < 1_000 ? [1, 2] : [2]))
        #expect(reader.cursor.seq == 5 && !reader.isWide)
        var mine = found.filter { $0.claim == feed.claim }
        if count >= 1_000 {
            #expect(left.count == 1 && left[0].isWide)
            // An incomplete entry counts as read up to the previous entry.
            #expect(mine[0].readTo?.seq == 4 && left[0].cursor.seq == 4)
            mine += resume(&left[0])
            #expect(!left[0].isWide && left[0].cursor == reader.cursor && left[0].root == reader.root)
            #expect(left[0].resume() == nil)
            reader.join(left[0])
        }
        #expect(mine.last?.readTo?.seq == 5 && mine.last?.hasReadSnapshot == false)
        let messages = mine.flatMap(\.messages)
        #expect(messages.map(\.position.index) == (0..<Int64(count)).map { $0 })
        #expect(SharedReaderBench.texts(messages) == SharedReaderBench.texts(SharedReaderBench.messages(feed, [entry])))
        // The feeds share a reader again.
        found = SharedReaderBench.pass(&reader, SharedReaderBench.set(6, "/a/k7", .int(-1))).found
        #expect(found.map { $0.messages.map { $0.position.id(in: "d") } } == [["d:6:0"], ["d:6:0"]])
    }

    /// Checks that a feed receives no more than its budget: a slow consumer gets the entry in slices.
    @Test func asFarAsThereIsRoom() throws {
        let feed = try SharedReaderBench.feed(1, "/a/{k}", room: 1_100)
        var reader = SharedReader([feed], root: .null, at: LogPosition(seq: 0))
        let entry = SharedReaderBench.set(1, "/a", SharedReaderBench.wide(1_500))
        var (found, left) = SharedReaderBench.pass(&reader, entry)
        #expect(reader.feeds.isEmpty)
        var messages = found.flatMap(\.messages)
        #expect(messages.count == 1_000)
        messages += left[0].resume()?.messages ?? []
        #expect(messages.count == 1_100)
        #expect(left[0].resume() == nil && left[0].isWide)
        SharedReaderBench.takeIn(feed, 1_100, room: 7)
        messages += left[0].resume()?.messages ?? []
        #expect(messages.count == 1_107 && left[0].isWide)
        SharedReaderBench.takeIn(feed, 7, room: 1_000)
        messages += resume(&left[0]).flatMap(\.messages)
        #expect(messages.map(\.position.index) == (0..<1_500).map { $0 })
    }

    /// Checks that an entry whose records the filter excludes ends as well, in slices.
    @Test func nothingToFind() throws {
        let feed = try SharedReaderBench.feed(1, "/a/{k}", room: 1) { try $0.filter("newData.val() < 0") }
        var reader = SharedReader([feed], root: .null, at: LogPosition(seq: 0))
        var (found, left) = SharedReaderBench.pass(
            &reader, SharedReaderBench.set(1, "/a", SharedReaderBench.wide(3_500)))
        found += resume(&left[0])
        #expect(found.count == 4 && found.allSatisfy(\.messages.isEmpty))
        #expect(found.last?.readTo?.seq == 1 && feed.window.available() == 1)
    }

    // MARK: Snapshots

    @Test(arguments: [0, 1, 999, 1_000, 1_001, 2_300, 2_499, 2_500, 2_600])
    func aSnapshotFromTheNth(_ first: Int64) throws {
        let feed = try SharedReaderBench.feed(1, "/a/{k}")
        let root = Node(children: [(Key("a"), SharedReaderBench.wide(2_500)), (Key("b"), .int(1))])
        var reader = SharedReader(feed, snapshot: root, at: LogPosition(seq: 9), from: first, time: 5_000)
        #expect(reader.isWide)
        let found = resume(&reader)
        let messages = found.flatMap(\.messages)
        #expect(messages.map(\.position.index) == (min(first, 2_500)..<2_500).map { $0 })
        #expect(messages.allSatisfy { $0.position.isSnapshot && $0.position.seq == 9 })
        #expect(messages.allSatisfy { $0.facts.event == "created" && $0.facts.time == "1970-01-01T00:00:05.000Z" })
        #expect(found.last?.hasReadSnapshot == true && found.last?.readTo?.seq == 9)
        #expect(found.dropLast().allSatisfy { !$0.hasReadSnapshot && $0.readTo == nil })
        // Changes follow the snapshot.
        let (changes, _) = SharedReaderBench.pass(&reader, SharedReaderBench.set(10, "/a/k3", .int(-1)))
        #expect(changes[0].messages.map { $0.position.id(in: "d") } == ["d:10:0"])
        #expect(changes[0].messages.map(\.facts.event) == ["updated"])
    }

    @Test(arguments: [Node.null, .int(1), SharedReaderBench.wide(3)]) func aSnapshotWithoutRecords(_ root: Node) throws
    {
        let feed = try SharedReaderBench.feed(1, "/a/{k}")
        var reader = SharedReader(feed, snapshot: root, at: LogPosition(seq: 2), from: 0, time: 0)
        let found = resume(&reader)
        #expect(found.count == 1 && found[0].messages.isEmpty && found[0].hasReadSnapshot)
        #expect(reader.cursor.seq == 2 && reader.root == root)
    }

    /// Checks that a snapshot that is restarted in its middle gives the remaining records.
    @Test func aFilteredSnapshotResumes() throws {
        let feed = try SharedReaderBench.feed(1, "/a/{k}") { try $0.filter("newData.val() % 2 == 0") }
        let root = Node(children: [(Key("a"), SharedReaderBench.wide(1_200))])
        let whole = (0..<2).map { part -> [String] in
            var reader = SharedReader(feed, snapshot: root, at: LogPosition(seq: 1), from: Int64(part) * 601, time: 0)
            return resume(&reader).flatMap(\.messages).map { $0.position.id(in: "d") }
        }
        #expect(whole[0].count == 600 && whole[1] == Array(whole[0].suffix(whole[1].count)))
        #expect(whole[1].first.flatMap { FeedPosition(id: $0, in: "d") }.map { $0.index >= 601 } == true)
    }
}
