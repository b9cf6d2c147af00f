import LogStore
import Runtime
import TestSupport
import Testing
import Tree

@testable import Engine
@testable import Feeds

/// Tests of the memory that shared readers' trees use in addition to the gateway's tree.
@Suite struct SharedReaderTreesTests {
    private static let records = 20_000

    private static func tree(_ factor: Int64, _ records: Int = records) -> Node {
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

    /// A budget, and a clock ahead of the system's that only the test advances.
    private final class World {
        let budget: TreeBudget
        var now = Clock.monotonicMilliseconds + 1_000_000
        var trees = SharedReaderTrees()

        init(bytes: Int) { budget = TreeBudget(bytes: bytes) }

        /// Checks readers with one tree each after some time. Returns the indices of those that evict their tree.
        func look(
            _ some: [Node], idle: Set<Int> = [], gateway: Node = .null, after milliseconds: Milliseconds = 100_000
        ) -> [Int] {
            now += milliseconds
            return trees.look(
                {
                    some.enumerated().map { index, tree in
                        SharedReaderTrees.Reader(index: index, trees: [tree], isIdle: idle.contains(index))
                    }
                }, gateway: { gateway }, now: { now }, in: { budget.room { true } })
        }
    }

    @Test func whatTheGatewayHasTooCostsNothing() {
        let world = World(bytes: 1 << 20)
        let gateway = Self.tree(1)
        let old = Self.changed(gateway, 5)
        #expect(world.look([old], idle: [0], gateway: gateway).isEmpty)
        // The nodes on the paths to five values, with their siblings.
        #expect(world.budget.total.bytes < 60_000, "\(world.budget.total.bytes)")
        // The gateway has loaded its tree again, which no longer shares nodes with the reader's tree.
        #expect(world.look([old], idle: [0], gateway: Self.tree(1)) == [0])
        #expect(world.budget.total.bytes < 60_000, "\(world.budget.total.bytes)")
    }

    @Test func whatSeveralHaveCountsOnce() {
        let world = World(bytes: 1 << 30)
        var trees = [Self.tree(1)]
        _ = world.look(trees)
        let single = world.budget.total.bytes
        for _ in 0..<9 { trees.append(Self.changed(trees[trees.count - 1], 3)) }
        #expect(world.look(trees, idle: Set(0..<10)).isEmpty, "there is room")
        #expect(single > 2 << 20 && world.budget.total.bytes < single * 3 / 2, "\(world.budget.total.bytes)")
    }

    /// Checks that idle readers evict their trees if memory that was available becomes short.
    @Test func roomThatGoesLater() {
        let world = World(bytes: 32 << 20)
        let trees = [Self.tree(1), Self.tree(2), .int(3), Self.tree(4)]
        #expect(world.look(trees, idle: [0, 2, 3]).isEmpty)
        let all = world.budget.total.bytes
        #expect(all > 6 << 20)
        let others = NamespaceMemory(in: world.budget.total)
        others.grow(by: 32 << 20)
        let before = world.budget.total.bytes
        #expect(world.look(trees, idle: [0, 2, 3], after: 10).isEmpty, "it was looked at just now")
        #expect(world.look(trees).isEmpty, "all are in use")
        #expect(world.budget.total.bytes == before)
        #expect(world.look(trees, idle: [0, 2, 3]) == [0, 3])
        #expect(world.budget.total.bytes < before - all / 2)
        withExtendedLifetime(others) {}
    }

    /// Checks that readers evict trees that are too small to matter alone but too large together.
    @Test func manySmallIdleReadersLeave() {
        let world = World(bytes: 1 << 20)
        let trees = (1...40).map { Self.tree(Int64($0), 200) }
        let least = world.budget.room { true }.leastBytes
        #expect(trees.allSatisfy { $0.heapBytesOfTree < least })
        #expect(world.look(trees, idle: Set(trees.indices)).count == 16)
        #expect(world.look(Array(trees.prefix(3)), idle: [0, 1, 2]).isEmpty, "three of them are not too much")
    }

    /// Checks that a check counts a limited number of trees separately, so that many idle readers evict theirs over
    /// several checks, and that none is forgotten.
    @Test func manyIdleReadersLeaveOneAfterAnother() {
        let world = World(bytes: 1 << 20)
        // The first readers are idle as well, and have trees too small to matter.
        var trees = (0..<40).map {
            $0 < 20 ? Node(children: [(Key("a"), .int(Int64($0)))]) : Self.tree(Int64($0), 1_500)
        }
        var left: [Int] = []
        for _ in 0..<6 {
            let leaving = world.look(trees, idle: Set(trees.indices))
            #expect(leaving.count <= 16 && leaving == leaving.sorted())
            left.append(leaving.count)
            for index in leaving.reversed() { trees.remove(at: index) }
        }
        #expect(left.reduce(0, +) >= 14 && trees.count >= 20, "\(left)")
        #expect(world.budget.total.bytes <= 1 << 20, "\(world.budget.total.bytes)")
    }

    /// Checks that trees that are already paged out are not evicted, which would free nothing.
    @Test func whatIsInPagesStays() throws {
        let directory = TemporaryFolder.path("lanes")
        try TemporaryFolder.make(directory)
        defer { TemporaryFolder.remove(directory) }
        let logger = Logger(level: .error, descriptor: -1)
        let file = try PageFile(in: directory, mostBytes: 1 << 30, logger) { fatalError($0) }
        let pages = TreePages(file, MemoryTotal(budget: 1 << 20))
        var pager = TreePager(pages)
        let pagedOut = pager.pageOut(Self.tree(1))
        let world = World(bytes: 2 << 20)
        #expect(world.look([pagedOut, Self.tree(2)], idle: [0, 1]) == [1])
        #expect(world.budget.total.bytes == pagedOut.heapBytesOfTree + NamespaceMemory.bytesBesidesTree)
    }

    /// Checks that nothing is counted without separate trees.
    @Test func whatIsGoneDoesNotCount() {
        let world = World(bytes: 1 << 20)
        #expect(world.look([Self.tree(1)]).isEmpty)
        #expect(world.budget.total.bytes > 2 << 20, "it is in use")
        #expect(world.look([]).isEmpty && world.budget.total.bytes == 0)
    }

    /// Checks that a reader that evicted its tree in the middle of a snapshot finds the remaining records.
    @Test(arguments: [0, 1, 1_000, 1_234]) func aRestingReaderResumes(_ taken: Int) throws {
        let feed = try SharedReaderBench.feed(1, "/a/{k}", room: 1)
        let root = SharedReaderBench.after(SharedReaderBench.set(3, "/a", SharedReaderBench.wide(2_500)), .null)
        let cursor = LogPosition(seq: 3, batch: [7])
        var reader = SharedReader(feed, snapshot: root, at: cursor, from: 0, time: 5)
        var found = reader.resume()?.messages ?? []
        func take(_ count: Int) {
            while found.count < count, reader.isWide {
                SharedReaderBench.takeIn(feed, 1, room: 1)
                found += reader.resume()?.messages ?? []
            }
        }
        take(taken)
        let resting = try #require(reader.resting)
        #expect(!resting.hasRoom && resting.cursor == cursor)
        reader = SharedReader(
            resting, root: SharedReaderBench.after(SharedReaderBench.set(3, "/a", SharedReaderBench.wide(2_500)), .null)
        )
        #expect(reader.isWide && reader.cursor == cursor)
        take(2_501)
        #expect(found.map(\.position.index) == (0..<2_500).map { Int64($0) })
        #expect(found.allSatisfy { $0.position.isSnapshot && $0.position.seq == 3 })
        #expect(!reader.isWide && reader.resting?.snapshot == nil)
    }

    /// Checks that a reader does not evict its tree in the middle of an entry, for which it needs both trees.
    @Test func inTheMiddleOfAnEntryItDoesNotRest() throws {
        let feed = try SharedReaderBench.feed(1, "/a/{k}", room: 1_100)
        var reader = SharedReader([feed], root: .null, at: LogPosition(seq: 0))
        let (_, left) = SharedReaderBench.pass(&reader, SharedReaderBench.set(1, "/a", SharedReaderBench.wide(1_500)))
        #expect(left.count == 1 && left[0].resting == nil)
    }
}
