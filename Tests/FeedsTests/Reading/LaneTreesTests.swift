import LogStore
import Runtime
import TestSupport
import Testing
import Tree

@testable import Engine
@testable import Feeds

/// What lanes' trees take of memory beside the gateway's own one.
@Suite struct LaneTreesTests {
    private static let records = 20_000

    private static func tree(_ factor: Int64) -> Node {
        let records = (0..<records).map { number -> (Key, Node) in
            let fields = [
                (Key("n"), Node.int(Int64(number) * factor)), (Key("text"), .string("the record of number \(number)")),
            ]
            return (Key("r\(100_000 + number)"), Node(children: fields))
        }
        return Node(children: [(Key("a"), Node(children: records))])
    }

    private static func changed(_ tree: Node, _ count: Int) -> Node {
        (0..<count).reduce(tree) { $0.replacing(Path(splitting: "a/r\(100_000 + $1 * 7)/n"), with: .int(-1)) }
    }

    /// A budget, the file, and a clock that is ahead, and stands still until it is set.
    private final class World {
        let budget: TreeBudget
        let file: PageFile
        var now = Clock.monotonicMilliseconds + 1_000_000
        var trees = LaneTrees()

        init(bytes: Int, fileBytes: Int64, _ directory: String) throws {
            let logger = Logger(level: .error, descriptor: -1)
            file = try PageFile(in: directory, mostBytes: fileBytes, logger) { fatalError($0) }
            budget = TreeBudget(bytes: bytes, pages: file)
        }

        /// A look some time later; what has become of the trees.
        func look(_ some: [Node], gateway: Node = .null, after milliseconds: Milliseconds = 100_000) -> [Node] {
            now += milliseconds
            let exchanged = trees.look(
                { some }, gateway: { gateway }, now: { now }, in: { budget.room { true } })
            return some.map { tree in tree.identity.flatMap { exchanged?[$0] } ?? tree }
        }
    }

    private func withWorld(
        bytes: Int = 1 << 20, fileBytes: Int64 = 1 << 30, _ body: (World) throws -> Void
    ) throws {
        let directory = TemporaryFolder.path("lanes")
        try TemporaryFolder.make(directory)
        defer { TemporaryFolder.remove(directory) }
        try body(try World(bytes: bytes, fileBytes: fileBytes, directory))
    }

    @Test func whatTheGatewayHasTooCostsNothing() throws {
        try withWorld { world in
            let gateway = Self.tree(1)
            let old = Self.changed(gateway, 5)
            _ = world.look([old], gateway: gateway)
            // The way to each of five places, and what is beside it.
            #expect(world.budget.total.bytes < 60_000, "\(world.budget.total.bytes)")
            #expect(world.file.usedBytes == 0)
            // Now the gateway has it in pages, say: it shares nothing with the lane's any more.
            let packed = world.look([old], gateway: Self.tree(1))
            #expect(world.file.usedBytes > 1 << 18)
            #expect(world.budget.total.bytes < 1 << 19 && packed[0].heapBytes < 1 << 19)
            #expect(packed[0] == old && old == packed[0])
        }
    }

    /// Many lanes that are stuck at places of their own: what they have in common goes into pages once.
    @Test func whatSeveralHaveGoesIntoPagesOnce() throws {
        try withWorld { world in
            let first = Self.tree(1)
            var single: Int64 = 0
            try withWorld { other in
                let packed = other.look([first])
                single = other.file.usedBytes
                #expect(packed[0] == first)
            }
            var trees = [first]
            for _ in 0..<9 { trees.append(Self.changed(trees[trees.count - 1], 3)) }
            let packed = world.look(trees)
            #expect(packed == trees)
            #expect(single > 1 << 18 && world.file.usedBytes < single * 3 / 2, "\(world.file.usedBytes) of \(single)")
            #expect(world.budget.total.bytes < 1 << 20)
            let used = world.file.usedBytes
            // There is nothing more to do.
            let again = world.look(packed)
            #expect(world.file.usedBytes == used && zip(again, packed).allSatisfy { $0.isIdentical(to: $1) })
        }
    }

    /// A lane that was made while there was room leaves memory when there is none any more.
    @Test func roomThatGoesLater() throws {
        try withWorld(bytes: 32 << 20) { world in
            let tree = Self.tree(1)
            #expect(world.look([tree])[0].isIdentical(to: tree))
            #expect(world.budget.total.bytes > 3 << 20 && world.file.usedBytes == 0)
            let others = NamespaceMemory(in: world.budget.total)
            others.grow(by: 32 << 20)
            // It was looked at just now.
            #expect(world.look([tree], after: 10)[0].isIdentical(to: tree))
            let packed = world.look([tree])
            #expect(packed[0] == tree && world.file.usedBytes > 1 << 18)
            #expect(packed[0].heapBytes < 1 << 19)
            withExtendedLifetime(others) {}
        }
    }

    /// Without lanes' trees of their own nothing counts, and nothing stays behind.
    @Test func whatIsGoneDoesNotCount() throws {
        try withWorld { world in
            var tree = world.look([Self.tree(1)])
            #expect(world.budget.total.bytes > 0)
            tree = world.look([])
            #expect(tree.isEmpty && world.budget.total.bytes == 0 && world.file.usedBytes == 0)
        }
    }

    /// A page file that is full is left alone for a minute.
    @Test func aFullFile() throws {
        try withWorld(fileBytes: 100_000) { world in
            let tree = Self.tree(1)
            let partly = world.look([tree])
            #expect(partly[0] == tree && world.file.usedBytes <= 100_000)
            #expect(world.budget.total.bytes > 2 << 20)
            #expect(world.look(partly, after: 30_000)[0].isIdentical(to: partly[0]))
            #expect(!world.look(partly, after: 40_000)[0].isIdentical(to: partly[0]))
        }
    }

    /// All messages of a lane that takes some at a time; `exchange` is done to its trees after the first of them.
    private func messages(_ lane: FeedLane, _ exchange: (Node) -> Node = { $0 }) -> [String] {
        var lane = lane
        var found: [FeedMessage] = []
        while let finding = lane.goOn() {
            if found.isEmpty { lane.exchange(exchange) }
            found += finding.messages
        }
        return LaneBench.texts(found)
    }

    @Test func aWideLaneGoesOnInPages() throws {
        try withWorld { world in
            let (before, after) = (Self.tree(1), Self.changed(Self.tree(-1), 9))
            let feed = try LaneBench.feed(1, "/a/{k}")
            let snapshot = FeedLane(feed, snapshot: after, at: LogCursor(seq: 3), from: 0, time: 1)
            var lane = FeedLane([feed], root: before, at: LogCursor(seq: 3))
            var findings = lane.feeds.map { LaneFinding(claim: $0.claim) }
            let entry = Entry(
                seq: 4, committedAt: 4_000, operation: .load, path: .root,
                changes: [Change(path: .root, value: .null)], isBulk: true)
            let left = lane.pass(entry, at: LogCursor(seq: 4), after: after, places: nil, &findings)
            try #require(left.count == 1)
            for wide in [snapshot, left[0]] {
                let trees = wide.trees
                let packed = world.look(trees)
                let wanted = messages(wide)
                #expect(wanted.count >= Self.records - 1_001)
                let found = messages(wide) { tree in
                    trees.firstIndex { $0.isIdentical(to: tree) }.map { packed[$0] } ?? tree
                }
                #expect(found == wanted)
                #expect(packed.allSatisfy { $0.heapBytes < 1 << 19 })
            }
        }
    }
}
