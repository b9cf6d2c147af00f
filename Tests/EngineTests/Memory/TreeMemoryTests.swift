import Engine
import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

/// Checks namespaces that are evicted and reloaded: clients notice nothing but the delay.
@Suite struct TreeMemoryTests {
    private static let budget = 1 << 20

    /// Many namespaces, each used once, stay within the budget; each still has its data.
    @Test func manyNamespacesUsedOnceStayWithinTheBudget() throws {
        try withEngines { settings, _ in
            settings.treeMemoryBytes = Self.budget
            settings.recentUseMilliseconds = 0
        } _: { _, engines in
            let engine = engines[0]
            let text = String(repeating: "x", count: 20_000)
            for number in 0..<200 {
                let outcome = try engine.namespace("n\(number)").write(
                    .set("a", .string("\(number)" + text), byteCount: 20_000))
                #expect(outcome?.committedSeq == 1)
            }
            #expect(eventually { engine.engine.memory.bytes <= Self.budget })
            #expect(engine.metrics.evictions.current >= 140)
            #expect(engine.engine.memory.namespaces < 60)
            for number in 0..<200 {
                let snapshot = try engine.namespace("n\(number)").snapshot
                #expect(snapshot.seq == 1 && snapshot.root[Path(splitting: "a")] == .string("\(number)" + text))
            }
            #expect(eventually { engine.engine.memory.bytes <= Self.budget })
            #expect(engine.metrics.loads.current > 300)
        }
    }

    /// Growth is also noticed if nothing is loaded any more, and many namespaces grow a little.
    @Test func growthIsNoticed() throws {
        try withEngines { settings, _ in
            settings.treeMemoryBytes = Self.budget
            settings.recentUseMilliseconds = 0
        } _: { _, engines in
            let engine = engines[0]
            for number in 0..<12 { _ = try engine.namespace("n\(number)") }
            #expect(engine.metrics.evictions.current == 0)
            for number in 0..<12 {
                guard let namespace = engine.engine.liveNamespace("n\(number)") else { continue }
                _ = namespace.write(.set("a", .string(String(repeating: "x", count: 150_000)), byteCount: 150_000))
            }
            #expect(eventually { engine.engine.memory.bytes <= Self.budget })
            #expect(engine.metrics.evictions.current >= 5 && engine.metrics.loads.current == 12)
        }
    }

    /// Requests hold no reference to a namespace in between. Namespaces that are requested repeatedly still stay in
    /// memory, even if together they exceed the budget.
    @Test func whatIsUsedAgainAndAgainStays() throws {
        try withEngines { settings, _ in
            settings.treeMemoryBytes = Self.budget
            settings.recentUseMilliseconds = 3_600_000
        } _: { _, engines in
            let engine = engines[0]
            let text = Node.string(String(repeating: "x", count: 150_000))
            for number in 0..<10 { _ = try engine.namespace("n\(number)").write(.set("a", text, byteCount: 150_000)) }
            #expect(engine.engine.memory.bytes > Self.budget)
            for round in 0..<30 {
                for number in 0..<10 {
                    _ = try engine.namespace("n\(number)").write(.set("b", .int(Int64(round)), byteCount: 8))
                }
            }
            #expect(engine.metrics.loads.current == 10 && engine.metrics.evictions.current == 0)
        }
    }

    /// Requests for many namespaces at once do not make memory grow without bound.
    @Test func notEvenWhatWasJustUsedTakesMoreThanTwiceTheBudget() throws {
        try withEngines { settings, _ in
            settings.treeMemoryBytes = Self.budget
            settings.recentUseMilliseconds = 3_600_000
        } _: { _, engines in
            let engine = engines[0]
            let text = Node.string(String(repeating: "x", count: 100_000))
            for number in 0..<60 { _ = try engine.namespace("n\(number)").write(.set("a", text, byteCount: 100_000)) }
            #expect(eventually { engine.engine.memory.bytes <= 2 * Self.budget })
            #expect(engine.metrics.evictions.current >= 35)
            #expect(engine.engine.memory.bytes > Self.budget, "what was used last is still there")
        }
    }

    /// Large namespaces are evicted above four budgets even if requests used them last, and many small ones were used
    /// before.
    @Test func largeNamespacesLeaveAfterManySmallOnes() throws {
        try withEngines { settings, _ in
            settings.treeMemoryBytes = Self.budget
            settings.recentUseMilliseconds = 3_600_000
        } _: { _, engines in
            let engine = engines[0]
            for number in 0..<150 { _ = try engine.namespace("small\(number)") }
            let text = Node.string(String(repeating: "x", count: 600_000))
            for number in 0..<10 { _ = try engine.namespace("n\(number)").write(.set("a", text, byteCount: 600_000)) }
            #expect(eventually { engine.engine.memory.bytes <= 5 * Self.budget })
            #expect((0..<150).allSatisfy { engine.engine.liveNamespace("small\($0)") != nil })
        }
    }

    /// A client that touches many namespaces does not evict namespaces with listeners.
    @Test func whatIsInUseStays() throws {
        try withEngines { settings, _ in
            settings.treeMemoryBytes = Self.budget
            settings.recentUseMilliseconds = 0
        } _: { _, engines in
            let engine = engines[0]
            let listener = RecordingListener()
            listener.started(try engine.namespace("used").subscribe(listener, at: .root), at: .root)
            let text = Node.string(String(repeating: "x", count: 100_000))
            for number in 0..<30 {
                _ = try engine.namespace("n\(number)").write(.set("a", text, byteCount: 100_000))
                _ = engine.engine.liveNamespace("used")?.write(.increment("count"))
            }
            #expect(engine.engine.liveNamespace("used") != nil)
            #expect(listener.wait { $0.root[Path(splitting: "count")] == .int(30) } != nil)
            #expect(listener.now.mistakes == [] && listener.now.resets == [] && listener.now.seqs.count == 30)
            #expect(eventually { engine.metrics.evictions.current >= 15 })
        }
    }

    /// A namespace that is larger than the budget is served, and not read again for each request.
    @Test func oneThatIsLargerThanTheBudgetIsKept() throws {
        try withEngines { settings, _ in
            settings.treeMemoryBytes = Self.budget
            settings.recentUseMilliseconds = 0
        } _: { url, engines in
            let text = Node.string(String(repeating: "x", count: 3 << 20))
            _ = try engines[0].namespace("giant").write(.set("a", text, byteCount: 3 << 20))
            let other = try TestEngine(url) { settings, _ in
                settings.treeMemoryBytes = Self.budget
                settings.recentUseMilliseconds = 0
            }
            defer { other.stop() }
            _ = try other.namespace("giant")
            for number in 0..<20 {
                let small = Node.string(String(repeating: "y", count: 200_000))
                _ = try other.namespace("n\(number)").write(.set("a", small, byteCount: 200_000))
                #expect(other.engine.liveNamespace("giant") != nil)
            }
            #expect(other.metrics.loads.current == 21)
            #expect(eventually { other.metrics.evictions.current >= 14 })
        }
    }

    /// Replacing a value is not growth, so the tree is not walked to recount it.
    @Test func overwritingIsNoGrowth() throws {
        try withEngines { _, engines in
            let namespace = try engines[0].namespace()
            func set(_ letter: String) {
                let text = String(repeating: letter, count: 2_000)
                _ = namespace.write(.set("a", .string(text), byteCount: text.utf8.count))
            }
            set("x")
            let before = engines[0].engine.memory.bytes
            for _ in 0..<40 {
                set("y")
                #expect(engines[0].engine.memory.bytes == before)
            }
        }
    }

    /// Removed data releases its memory.
    @Test func removedDataIsNotCountedForLong() throws {
        try withEngines { url, engines in
            let namespace = try engines[0].namespace()
            let children = (0..<15_000).map { (Key("k\($0)"), Node.int(Int64($0))) }
            _ = namespace.write(.set("a", Node(children: children), byteCount: 200_000))
            #expect(eventually { engines[0].engine.memory.bytes > 600_000 })
            _ = namespace.write(.set("a", .null))
            #expect(eventually { engines[0].engine.memory.bytes < 100_000 })
        }
    }

    /// With namespaces that are evicted and reloaded on two gateways, every write is present once for every reader, and
    /// listeners miss and repeat nothing. Random writes to few namespaces are compared with a model that applies the
    /// committed writes; the budget holds about one of the namespaces.
    @Test(arguments: [1, 2, 3] as [UInt64]) func randomWritesWhileNamespacesComeAndGo(seed: UInt64) throws {
        try withEngines(2) { settings, _ in
            settings.treeMemoryBytes = 6_000
            settings.recentUseMilliseconds = 0
            settings.pollMilliseconds = 200
        } _: { url, engines in
            let names = ["a", "b", "c", "d", "e"]
            let listener = RecordingListener()
            listener.started(try engines[0].namespace("a").subscribe(listener, at: .root), at: .root)
            let committed = MutexBox<[String: [Int64: [Change]]]>([:])
            let failures = MutexBox<[String]>([])
            let threads = (0..<4).map { thread in
                Thread(name: "writer") {
                    var generator = TreeGenerator(seed: seed &* 100 &+ UInt64(thread))
                    var seen: [String: Int64] = [:]
                    // The number of evictions depends on scheduling: the loop runs until there were enough.
                    for number in 0..<3_000 {
                        if number >= 80, engines.allSatisfy({ $0.metrics.evictions.current > 10 }) { break }
                        let name = generator.random.pick(names)
                        guard let namespace = try? engines[generator.random.below(2)].namespace(name) else {
                            failures.withLock { $0.append("\(name) can't be loaded") }
                            continue
                        }
                        // The client sees on each gateway the writes that it has seen on any, if it waits for them.
                        if let seq = seen[name], !namespace.waitFor(seq) {
                            failures.withLock { $0.append("\(name) has not come to \(seq)") }
                        }
                        if case .committed(let seq, let changes)? = namespace.write(generator.write()), !changes.isEmpty
                        {
                            seen[name] = max(seq, seen[name, default: 0])
                            committed.withLock { $0[name, default: [:]][seq] = changes }
                        }
                    }
                }
            }
            for thread in threads { thread.join() }
            #expect(failures.withLock { $0 } == [], "seed \(seed)")
            for name in names {
                let entries = committed.withLock { $0[name] ?? [:] }
                #expect(entries.keys.sorted() == Array(0...Int64(entries.count)).dropFirst().map { $0 }, "seed \(seed)")
                var model = Node.null
                for seq in entries.keys.sorted() {
                    for change in entries[seq] ?? [] { model = model.replacing(change.path, with: change.value) }
                }
                let stored = try StoredState(url, name)
                #expect(stored.root == model, "seed \(seed), \(name)")
                stored.check(equals: try engines.map { try $0.namespace(name) })
            }
            let last = Int64(committed.withLock { $0["a"]?.count ?? 0 })
            #expect(listener.wait { $0.seq == last } != nil, "seed \(seed)")
            #expect(listener.now.mistakes == [] && listener.now.resets == [])
            #expect(listener.now.seqs == Array(0...last).filter { $0 > 0 }, "seed \(seed)")
            #expect(engines.allSatisfy { $0.metrics.evictions.current > 10 }, "seed \(seed): namespaces came and went")
            #expect(try names.allSatisfy { try verify(url, $0).isClean })
        }
    }

    /// The queue of loads is bounded, and reports when it is full.
    @Test func tooManyLoadsAreRefused() throws {
        try withDatabase { url in
            let engine = try TestEngine(url) { settings, _ in
                settings.loaders = 1
                settings.maxWaitingLoads = 5
            }
            defer { engine.stop() }
            _ = try engine.namespace("first")
            let blocker = try LogConnection(url)
            defer { blocker.close() }
            // The table's lock blocks all loads.
            try blocker.sql.executeScript("begin; lock table pathmirror.namespace in access exclusive mode")
            let results = MutexBox<[String]>([])
            for number in 0..<20 {
                engine.engine.withNamespace("n\(number)") { result in
                    let text = if case .failure(.overloaded) = result { "overloaded" } else { "answered" }
                    results.withLock { $0.append(text) }
                }
            }
            #expect(eventually { results.withLock { $0.filter { $0 == "overloaded" }.count } >= 14 })
            try blocker.sql.executeScript("rollback")
            #expect(eventually { results.withLock { $0.count } == 20 })
            #expect(results.withLock { $0.filter { $0 == "answered" }.count } >= 5)
        }
    }
}
