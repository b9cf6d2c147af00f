import LogStore
import Postgres
import Rules
import Runtime
import TestSupport
import Testing
import Tree

@testable import Engine

/// Checks that namespaces larger than the budget are served as usual, with parts read from the disk.
@Suite struct PagedNamespaceTests {
    private static let budget = 2 << 20

    /// A namespace of 60,000 rows and about 6 MB is loaded into a budget of 2 MB.
    @Test func aNamespaceLargerThanTheBudgetIsServed() throws {
        try withPages { url, budget, makeEngine in
            try Self.insertRecords(20_000, url)
            let engine = try makeEngine(url)
            let namespace = try engine.namespace()
            #expect(namespace.snapshot.root.rowCount == 60_000)
            #expect(budget.total.bytes <= Self.budget * 9 / 8)
            let facts = try #require(engine.engine.memory.pages)
            #expect(facts.writes > 20 && facts.bytesInFile > 1 << 19)
            for number in stride(from: 0, to: 20_000, by: 17) {
                let record = namespace.snapshot.root[Self.record(number)]
                try #require(record.child(Key("name")) == .string("the name of record \(number)"))
                try #require(record.child(Key("number")) == .int(Int64(number)))
            }
            #expect(try #require(engine.engine.memory.pages).reads > 20)
            #expect(budget.total.bytes <= Self.budget * 9 / 8)
            for number in stride(from: 0, to: 20_000, by: 977) {
                let write = Write(
                    .set(Path(Self.record(number).keys + [Key("name")]), .string("renamed")), operation: .set,
                    byteCount: 7, auth: .admin)
                #expect(namespace.write(write)?.committedSeq != nil)
            }
            let removal = Write(.set(Self.record(5), .null), operation: .remove, byteCount: 0, auth: .admin)
            #expect(namespace.write(removal)?.committedSeq != nil)
            let stored = try Self.storedRoot(url)
            #expect(namespace.snapshot.root == stored)
            #expect(namespace.snapshot.root.rowCount == 59_997)
            #expect(budget.total.bytes <= Self.budget * 9 / 8)
        }
    }

    /// The size of the namespace is known only once it has been read: it is then paged out.
    @Test func oneThatIsReadBeforeTheFirstLookAtItIsServedFromPages() throws {
        try withPages { url, budget, makeEngine in
            let connection = try LogConnection(url)
            defer { connection.close() }
            let record = try #require(try connection.namespace(named: "test", creating: true))
            try connection.sql.executeScript(
                """
                insert into pathmirror.node (namespace_id, path, value, version)
                select \(record.id), '/texts/' || n, to_json(repeat(n || ' ', 60)), 0 from generate_series(100000, 107999) as n
                """)
            let engine = try makeEngine(url)
            let namespace = try engine.namespace()
            #expect(namespace.snapshot.root.rowCount == 8_000 && budget.total.bytes <= Self.budget * 9 / 8)
            #expect(try #require(engine.engine.memory.pages).writes > 20)
            #expect(namespace.snapshot.root == (try Self.storedRoot(url)))
            #expect(budget.keptBytes == 0)
        }
    }

    /// A change in a page brings it into the tree with its neighbours: they count towards the budget, and are paged out
    /// at the next load.
    @Test func whatIsChangedEverywhereCountsAndComesBackInPages() throws {
        try withPages { url, budget, makeEngine in
            try Self.insertRecords(20_000, url)
            let engine = try makeEngine(url)
            try Self.using(engine) { namespace in
                var random = SeededGenerator(seed: 1)
                let sink = CollectingSink()
                for number in 0..<4_000 {
                    let path = Path(Self.record(random.below(20_000)).keys + [Key("number")])
                    let write = Write(.set(path, .int(Int64(number))), operation: .set, byteCount: 8, auth: .admin)
                    namespace.submit(write, to: sink, token: UInt64(number))
                    if number % 50 == 49 { #expect(sink.outcome(UInt64(number))?.committedSeq != nil) }
                }
                // The size comes from a full count, not only from the estimate.
                #expect(
                    eventually(seconds: 20) {
                        let pages = budget.pages?.facts.bytesInMemory ?? 0
                        return budget.total.bytes >= (namespace.snapshot.root.heapBytes + pages) * 7 / 8
                    }, "\(namespace.snapshot.root.heapBytes), \(budget.total.bytes)")
                #expect(budget.total.bytes > Self.budget, "it is in use, and stays as it is")
            }
            try Self.comesBackInPages(engine, budget, url)
        }
    }

    /// Clients that only send requests hold no reference to the namespace in between. It is read once, into pages, and
    /// stays in memory while it is used, although it exceeds the budget and writes bring it to three times the budget.
    @Test func oneThatIsUsedByRequestsOnlyIsReadOnce() throws {
        try withPages(bytes: 3 << 20) { url, budget, makeEngine in
            try Self.insertRecords(20_000, url)
            let engine = try makeEngine(url)
            var random = SeededGenerator(seed: 7)
            for number in 0..<3_000 {
                let path = Path(Self.record(random.below(20_000)).keys + [Key("number")])
                let write = Write(.set(path, .int(Int64(number))), operation: .set, byteCount: 8, auth: .admin)
                try #require(try engine.namespace().write(write)?.committedSeq == Int64(number + 1))
                let other = Self.record(random.below(20_000))
                try #require(try engine.namespace().snapshot.root[other].child(Key("name")) != .null)
            }
            #expect(engine.metrics.loads.current == 1 && engine.metrics.evictions.current == 0)
            #expect(try #require(engine.engine.memory.pages).writes > 20)
            #expect(eventually { budget.total.bytes <= budget.total.budget * 9 / 8 }, "\(budget.total.bytes)")
        }
    }

    /// The namespace grows by writes while a listener keeps it in memory, and is evicted after the listener's removal.
    @Test func whatGrowsBeyondTheBudgetComesBackInPages() throws {
        try withPages { url, budget, makeEngine in
            let engine = try makeEngine(url)
            try Self.using(engine) { namespace in
                let path = Path(splitting: "rooms/7")
                let listener = RecordingListener()
                listener.started(namespace.subscribe(listener, at: path), at: path)
                defer { namespace.unsubscribe(listener, at: path) }
                let text = String(repeating: "text ", count: 200)
                for number in 0..<6_000 {
                    let path = Path(splitting: "rooms/\(number % 10)/m\(100_000 + number)")
                    let write = Write(
                        .set(path, .string("\(number) " + text)), operation: .set, byteCount: 1_000, auth: .admin)
                    try #require(namespace.write(write)?.committedSeq == Int64(number + 1))
                }
                #expect(budget.total.bytes > 2 * Self.budget && engine.metrics.evictions.current == 0)
                #expect(try #require(budget.pages).facts.writes == 0)
                #expect(listener.now.seqs.count == 600)
            }
            try Self.comesBackInPages(engine, budget, url)
        }
    }

    /// A namespace in use that grew far beyond the budget does not cause its neighbours to be reloaded for each
    /// request.
    @Test func othersStayBesideOneThatGrewLarge() throws {
        try withPages(recentUse: 3_600_000) { url, budget, makeEngine in
            let engine = try makeEngine(url)
            let large = try engine.namespace()
            let text = String(repeating: "x", count: 100_000)
            for number in 0..<60 {
                // Each value has its own text: shared values would count once.
                let value = Node.string("\(number) " + text)
                #expect(large.write(.set("a\(number)", value, byteCount: 100_000))?.committedSeq != nil)
            }
            try #require(eventually { budget.total.bytesOfLarge > 2 * Self.budget })
            for _ in 0..<5 {
                for number in 0..<10 {
                    _ = try engine.namespace("n\(number)").write(.set("a", .int(1), byteCount: 1))
                }
            }
            #expect(engine.metrics.loads.current == 11 && engine.metrics.evictions.current == 0)
            withExtendedLifetime(large) {}
        }
    }

    /// Large namespaces that requests use all the time, and that were written to everywhere, are evicted before they
    /// take many times the budget, and come back in pages.
    @Test func manyThatGrewLargeDoNotTakeAllOfTheMemory() throws {
        try withPages(recentUse: 3_600_000) { url, budget, makeEngine in
            let engine = try makeEngine(url)
            let text = String(repeating: "x", count: 100_000)
            for number in 0..<12 {
                for index in 0..<15 {
                    let value = Node.string("\(number)-\(index) " + text)
                    let outcome = try engine.namespace("n\(number)").write(.set("a\(index)", value, byteCount: 100_000))
                    try #require(outcome?.committedSeq != nil)
                }
            }
            #expect(eventually { budget.total.bytes <= 5 * Self.budget }, "\(budget.total.bytes)")
            #expect(engine.metrics.evictions.current >= 5)
            for number in 0..<12 {
                let root = try engine.namespace("n\(number)").snapshot.root
                #expect(root.childCount == 15 && root.child(Key("a7")) == .string("\(number)-7 " + text))
            }
            #expect(try #require(engine.engine.memory.pages).writes > 20)
        }
    }

    /// Uses the namespace, and holds no reference to it afterwards.
    private static func using(_ engine: TestEngine, _ body: (LiveNamespace) throws -> Void) throws {
        try body(try engine.namespace())
    }

    /// Expects the idle namespace to be evicted, and to fit the budget after the next load.
    private static func comesBackInPages(_ engine: TestEngine, _ budget: TreeBudget, _ url: PostgresURL) throws {
        #expect(eventually(seconds: 30) { engine.engine.memory.namespaces == 0 })
        let before = try #require(budget.pages).facts.writes
        let namespace = try engine.namespace()
        #expect(try #require(budget.pages).facts.writes > before + 20)
        #expect(eventually { budget.total.bytes <= budget.total.budget * 5 / 4 }, "\(budget.total.bytes)")
        #expect(namespace.snapshot.root == (try storedRoot(url)))
    }

    /// Two gateways write at random to namespaces that each holds in pages: the log makes the tree that both have.
    @Test(arguments: [1, 2, 3] as [UInt64])
    func randomWritesByTwo(seed: UInt64) throws {
        try withPages(bytes: 300_000) { url, _, makeEngine in
            try Self.insertRecords(3_000, url)
            let engines = [try makeEngine(url), try makeEngine(url)]
            let namespaces = try engines.map { try $0.namespace() }
            var random = SeededGenerator(seed: seed)
            var last: Int64 = 0
            for step in 0..<400 {
                let namespace = namespaces[random.below(2)]
                let number = random.below(3_100)
                let value: Node =
                    random.oneIn(4)
                    ? .null
                    : Node(children: [
                        (Key("name"), .string("step \(step)")),
                        (
                            Key("list"),
                            Node(
                                children: (0..<random.below(9)).map {
                                    (Key("\($0)"), .int(Int64(step)))
                                })
                        ),
                    ])
                let write = Write(.set(Self.record(number), value), operation: .set, byteCount: 64, auth: .admin)
                last = try #require(namespace.write(write)?.committedSeq, "seed \(seed), step \(step)")
            }
            let stored = try Self.storedRoot(url)
            for namespace in namespaces {
                #expect(namespace.waitFor(last))
                #expect(namespace.snapshot.root == stored && stored == namespace.snapshot.root, "seed \(seed)")
            }
            #expect(try verify(url).problems.isEmpty)
        }
    }

    /// Without space on the disk, the namespace is served from memory, as before there were pages.
    @Test func withoutRoomOnTheDiskItStaysInMemory() throws {
        try withPages(fileBytes: 100_000) { url, budget, makeEngine in
            try Self.insertRecords(20_000, url)
            let engine = try makeEngine(url)
            let namespace = try engine.namespace()
            #expect(namespace.snapshot.root == (try Self.storedRoot(url)))
            #expect(try #require(engine.engine.memory.pages).bytesInFile <= 100_000)
            // Otherwise it would be read again and again.
            #expect(eventually { budget.keptBytes > Self.budget })
        }
    }

    /// Once the file may have space again, the kept namespace is evicted when it is idle, and the next load tries
    /// again.
    @Test func whatWasKeptLeavesOnceTheFileMayHaveRoom() throws {
        let now = MutexBox<Milliseconds>(1_000_000)
        try withPages(fileBytes: 100_000, recentUse: 0, now: now) { url, budget, makeEngine in
            try Self.insertRecords(20_000, url)
            let engine = try makeEngine(url)
            func touch() throws { #expect(try engine.namespace().snapshot.root.rowCount == 60_000) }
            for round in 0..<2 {
                try touch()
                #expect(eventually { budget.keptBytes > Self.budget })
                _ = try engine.namespace("other-\(round)")
                #expect(engine.engine.liveNamespace("test") != nil)
                now.withLock { $0 += 300_000 }
                // Loads request memory from the budget.
                _ = try engine.namespace("another-\(round)")
                #expect(eventually { engine.engine.liveNamespace("test") == nil })
            }
        }
    }

    /// The disk space of a namespace is free once the namespace is evicted.
    @Test func evictedNamespacesLeaveTheDisk() throws {
        try withPages(recentUse: 0) { url, budget, makeEngine in
            try Self.insertRecords(20_000, url)
            let engine = try makeEngine(url)
            func touch() throws {
                let namespace = try engine.namespace()
                #expect(namespace.snapshot.root.rowCount == 60_000)
            }
            try touch()
            #expect(try #require(engine.engine.memory.pages).bytesInFile > 0)
            try Self.insertRecords(20_000, url, in: "other")
            let other = try engine.namespace("other")
            #expect(other.snapshot.root.rowCount == 60_000)
            let fill = String(repeating: "x", count: 100_000)
            for number in 0..<40 {
                _ = try engine.namespace("n\(number)").write(.set("a", .string(fill), byteCount: 100_000))
            }
            #expect(eventually { engine.engine.liveNamespace("test") == nil })
            try touch()
            withExtendedLifetime(other) {}
        }
    }

    // MARK: Help

    static func record(_ number: Int) -> Path { Path(splitting: "records/r\(100_000 + number)") }

    /// Inserts rows of records without log entries.
    static func insertRecords(_ count: Int, _ url: PostgresURL, in name: String = "test") throws {
        let connection = try LogConnection(url)
        defer { connection.close() }
        let record = try #require(try connection.namespace(named: name, creating: true))
        try connection.sql.executeScript(
            """
            insert into pathmirror.node (namespace_id, path, value, version)
            select \(record.id), '/records/r' || 100000 + n || column1, replace(column2, 'N', n::text)::json, 0
            from generate_series(0, \(count - 1)) as n,
                (values ('/name', '"the name of record N"'), ('/number', 'N'), ('/flags/a', 'true')) as fields
            """)
    }

    static func storedRoot(_ url: PostgresURL) throws -> Node {
        let connection = try LogConnection(url)
        defer { connection.close() }
        let record = try #require(try connection.namespace(named: "test"))
        return try connection.loadTree(record.id).root
    }
}

/// Runs `body` with engines that have a page file and the given memory budget for trees.
func withPages(
    bytes: Int = 2 << 20, fileBytes: Int64 = 1 << 30, recentUse: Int64 = EngineSettings().recentUseMilliseconds,
    now: MutexBox<Milliseconds>? = nil,
    _ body: (PostgresURL, TreeBudget, (PostgresURL) throws -> TestEngine) throws -> Void
) throws {
    try withScratchDirectory { directory in
        try withDatabase { url in
            let logger = Logger(level: .error, descriptor: -1)
            let clock = { @Sendable in now?.withLock { $0 } ?? Clock.monotonicMilliseconds }
            let file = try PageFile(in: directory, mostBytes: fileBytes, logger, now: clock) { fatalError($0) }
            let budget = TreeBudget(bytes: bytes, pages: file)
            var engines: [TestEngine] = []
            defer { for engine in engines { engine.stop() } }
            try body(url, budget) { url in
                let engine = try TestEngine(url, budget: budget) { settings, _ in
                    settings.recentUseMilliseconds = recentUse
                }
                engines.append(engine)
                return engine
            }
        }
    }
}
