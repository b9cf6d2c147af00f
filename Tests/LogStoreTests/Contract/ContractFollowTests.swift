import LogStore
import TestSupport
import Testing
import Tree

/// Checks that a follower receives every entry once and in order, from any position and with any page size, or is
/// notified that this is impossible.
@Suite struct ContractFollowTests {
    /// Fills a store's namespace with entries of every kind. Returns the writer.
    static func fill(_ one: any LogContract, _ random: inout TreeGenerator, count: Int) throws -> BatchWriter {
        var writer = try one.writer()
        for number in 0..<count {
            switch random.random.below(8) {
            case 0:
                let leaves = (0..<(1 + random.random.below(8))).map { index in
                    (path: "/i/\(number % 3)/k\(index)", value: Node.int(Int64(number)))
                }
                let path = Path(splitting: "i/\(number % 3)")
                _ = try one.importLeaves(leaves, to: "test", at: path, rowsPerChunk: nil)
                var application = BulkApplication([Change(path: path, value: .null)], to: writer.root)
                repeat {
                    application.take(leaves.map { Change(path: Path(splitting: $0.path), value: $0.value) })
                } while application.beginNextPass()
                writer.root = application.root
                writer.head += 1
            case 1:
                let parts = [["x", "y"], ["z"]].map { keys in
                    keys.map { Change(path: Path(splitting: "large/\($0)"), value: .int(Int64(number))) }
                }
                let whole = writer.batch([parts.flatMap { $0 }])
                let record = Batch.Record(
                    operation: .update, path: Path(splitting: "large"), changes: ChangeCodec.encode([]))
                try one.commitLarge(
                    Batch(
                        namespace: whole.namespace, expectedHead: whole.expectedHead, id: whole.id, records: [record],
                        rows: whole.rows), parts)
            case 2:
                _ = try one.setRules(writer.namespace, "{\"rules\":{\".read\":\(number % 2 == 0)}}")
                writer.head += 1
            default:
                let writes = (0...random.random.below(3)).map { _ in [random.change(maxDepth: 2)] }
                _ = try #require(try one.commit(writer.batch(writes)) == .committed)
            }
        }
        return writer
    }

    @Test(arguments: ContractStore.all, [1, 2, 3, 4] as [UInt64])
    func everyEntryOnceInOrder(_ store: ContractStore, seed: UInt64) throws {
        try store.with { opened in
            let one = try opened.connect()
            defer { one.close() }
            var random = TreeGenerator(seed: seed)
            let writer = try Self.fill(one, &random, count: 40)
            #expect(try one.head(writer.namespace)?.seq == writer.head)
            let all = try one.entries(writer.namespace)
            #expect(all.map(\.entry.seq) == Array(1...writer.head))
            for pageEntries in [1, 2, 7, 1_000] {
                var reader = TreeReader(writer.namespace, pageEntries: pageEntries)
                try reader.catchUp(one)
                #expect(reader.count == Int(writer.head))
                #expect(reader.loads == 0)
                #expect(reader.root == writer.root)
                let head = try one.head(writer.namespace)
                #expect(reader.log.position == head)
            }
            #expect(try one.tree(writer.namespace).root == writer.root)
            #expect(try one.verify(writer.namespace) == [])
        }
    }

    @Test(arguments: ContractStore.all)
    func fromEveryPositionAndUpToEveryBound(_ store: ContractStore) throws {
        try store.with { opened in
            let one = try opened.connect()
            defer { one.close() }
            var writer = try one.writer()
            for number in 0..<6 { #expect(try one.commit(writer.set("k\(number)", .int(1))) == .committed) }
            for start in 0...7 as ClosedRange<Int64> {
                for bound in 0...7 as ClosedRange<Int64> {
                    var log = LogFollower(writer.namespace, at: LogPosition(seq: start), through: bound) {
                        $0.pageEntries = 2
                    }
                    var seqs: [Int64] = []
                    while case .entries(let entries) = try one.next(&log) { seqs += entries.map(\.entry.seq) }
                    #expect(seqs == (start < min(6, bound) ? Array((start + 1)...min(6, bound)) : []))
                }
            }
        }
    }

    @Test(arguments: ContractStore.all)
    func pagesAreBoundedByBytes(_ store: ContractStore) throws {
        try store.with { opened in
            let one = try opened.connect()
            defer { one.close() }
            var writer = try one.writer()
            for number in 0..<10 {
                let text = String(repeating: "x", count: 1_000)
                #expect(try one.commit(writer.set("k\(number)", .string(text))) == .committed)
            }
            for (bytes, first) in [(1, 1), (2_500, 3), (100_000, 10)] {
                var log = LogFollower(writer.namespace, at: LogPosition(seq: 0)) { $0.pageBytes = bytes }
                guard case .entries(let entries) = try one.next(&log) else {
                    Issue.record("no entries")
                    continue
                }
                #expect(entries.count == first, "\(bytes) bytes")
                var seqs = entries.map(\.entry.seq)
                while case .entries(let entries) = try one.next(&log) { seqs += entries.map(\.entry.seq) }
                #expect(seqs == Array(1...10))
            }
        }
    }

    @Test(arguments: ContractStore.all)
    func entriesInPartsComeWhole(_ store: ContractStore) throws {
        try store.with { opened in
            let one = try opened.connect()
            defer { one.close() }
            var writer = try one.writer()
            let parts = (0..<5).map { part in
                (0..<3).map { Change(path: Path(splitting: "p\(part)/k\($0)"), value: .int(Int64($0))) }
            }
            let whole = writer.batch([parts.flatMap { $0 }])
            let record = Batch.Record(operation: .update, path: .root, changes: ChangeCodec.encode([]))
            try one.commitLarge(
                Batch(
                    namespace: whole.namespace, expectedHead: 0, id: whole.id, records: [record], rows: whole.rows),
                parts)
            let entry = try #require(try one.entries(writer.namespace).first)
            #expect(entry.entry.isBulk)
            #expect(entry.batchID == whole.id)
            #expect(try one.parts(writer.namespace, of: 1) == parts)
            #expect(throws: LogStoreError.self) { try one.parts(writer.namespace, of: 2) }
            #expect(try one.tree(writer.namespace).root == writer.root)
            // If a snapshot of the tree exists, a large write's rows have the seq of their entry.
            #expect(try one.commit(writer.set("after", .int(1))) == .committed)
            #expect(try one.verify(writer.namespace) == [])
        }
    }

    @Test(arguments: ContractStore.all)
    func anotherHistoryIsReported(_ store: ContractStore) throws {
        try store.with { opened in
            let one = try opened.connect()
            defer { one.close() }
            var writer = try one.writer()
            let first = writer.set("a", .int(1))
            #expect(try one.commit(first) == .committed)
            #expect(try one.commit(writer.set("a", .int(2))) == .committed)
            let cases: [(cursor: LogPosition, continues: Bool)] = [
                (LogPosition(seq: 1, batch: first.id), true), (LogPosition(seq: 1), true),
                (LogPosition(seq: 1, batch: Batch.makeID()), false),
                (LogPosition(seq: 0, batch: Batch.makeID()), false),
                (LogPosition(seq: 3, batch: first.id), false),
            ]
            for (cursor, continues) in cases {
                var log = LogFollower(writer.namespace, at: cursor) { $0.checksHistory = true }
                switch try one.next(&log) {
                case .entries(let entries): #expect(continues && entries.map(\.entry.seq) == [2])
                case .rolledBack(let history): #expect(!continues && history?.head == 2)
                default: Issue.record("\(cursor)")
                }
            }
            var gone = LogFollower(writer.namespace + 1_000, at: LogPosition(seq: 0)) { $0.checksHistory = true }
            guard case .rolledBack(nil) = try one.next(&gone) else {
                Issue.record("a namespace that is not there")
                return
            }
        }
    }

    /// Checks that a commit is announced to listeners, long before the poll.
    @Test(.timeLimit(.minutes(2)), arguments: ContractStore.all)
    func commitsAreAnnounced(_ store: ContractStore) throws {
        try store.with { opened in
            let (one, two) = (try opened.connect(), try opened.connect())
            defer {
                one.close()
                two.close()
            }
            var writer = try one.writer()
            var other = try one.writer("other")
            try two.listen()
            var log = LogFollower(writer.namespace, at: LogPosition(seq: 0)) { $0.pollMilliseconds = 600_000 }
            guard case .end = try two.nextOrWait(&log) else {
                Issue.record("nothing was written")
                return
            }
            for number in 0..<5 {
                #expect(try one.commit(other.set("a", .int(Int64(number)))) == .committed)
                #expect(try one.commit(writer.set("a", .int(Int64(number)))) == .committed)
                var seqs: [Int64] = []
                while seqs.isEmpty {
                    if case .entries(let entries) = try two.nextOrWait(&log) { seqs = entries.map(\.entry.seq) }
                }
                #expect(seqs == [Int64(number) + 1])
            }
        }
    }

    /// Checks that a follower that does not listen finds commits by polling.
    @Test(.timeLimit(.minutes(2)), arguments: ContractStore.all)
    func thePollFindsWhatWasNotAnnounced(_ store: ContractStore) throws {
        try store.with { opened in
            let (one, two) = (try opened.connect(), try opened.connect())
            defer {
                one.close()
                two.close()
            }
            var writer = try one.writer()
            var log = LogFollower(writer.namespace, at: LogPosition(seq: 0)) { $0.pollMilliseconds = 20 }
            for number in 1...3 as ClosedRange<Int64> {
                #expect(try one.commit(writer.set("a", .int(number))) == .committed)
                var seqs: [Int64] = []
                while seqs.isEmpty {
                    if case .entries(let entries) = try two.nextOrWait(&log) { seqs = entries.map(\.entry.seq) }
                }
                #expect(seqs == [number])
            }
        }
    }

    /// Checks that a follower continues at its position on another connection if its connection is lost.
    @Test(arguments: ContractStore.all)
    func aFollowerOutlivesItsConnection(_ store: ContractStore) throws {
        try store.with { opened in
            let one = try opened.connect()
            defer { one.close() }
            var writer = try one.writer()
            for number in 0..<9 { #expect(try one.commit(writer.set("k\(number)", .int(1))) == .committed) }
            var log = LogFollower(writer.namespace, at: LogPosition(seq: 0)) { $0.pageEntries = 2 }
            var seqs: [Int64] = []
            for _ in 0..<5 {
                let two = try opened.connect()
                if case .entries(let entries) = try two.next(&log) { seqs += entries.map(\.entry.seq) }
                two.close()
                let before = log.position
                #expect(throws: LogStoreError.self) { try two.next(&log) }
                #expect(log.position == before)
            }
            #expect(seqs == Array(1...9))
        }
    }
}
