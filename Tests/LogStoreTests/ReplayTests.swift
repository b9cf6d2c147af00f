import Engine
import LogStore
import Postgres
import TestSupport
import Testing
import Tree

/// Tests of past trees, snapshots, pruning, and entries applied elsewhere.
@Suite struct ReplayTests {
    private func smallPartitions(_ count: Int64) -> (inout EngineSettings, inout LogConnection.Settings) -> Void {
        { _, connection in connection.entriesPerPartition = count }
    }

    /// Makes random writes and records each resulting tree in `trees[seq]`.
    private func history(
        _ url: PostgresURL, _ engine: TestEngine, seed: UInt64, _ count: Int
    ) throws -> (LogConnection, NamespaceRecord, [Node]) {
        let connection = try LogConnection(url)
        let live = try engine.namespace("test")
        var generator = TreeGenerator(seed: seed)
        var trees = [Node.null]
        while trees.count <= count {
            let before = live.snapshot.seq
            _ = live.write(generator.write())
            if live.snapshot.seq > before { trees.append(live.snapshot.root) }
        }
        let record = try #require(try connection.namespace(named: "test"))
        try #require(record.head == Int64(trees.count - 1))
        return (connection, record, trees)
    }

    private func tree(_ connection: LogConnection, _ record: NamespaceRecord, at seq: Int64, within path: Path? = nil)
        throws
        -> PastTree
    {
        var tree = try PastTree(connection, record, for: seq, within: path)
        try tree.advance(to: seq)
        return tree
    }

    @Test(arguments: [11, 12] as [UInt64])
    func everyTreeThereWas(seed: UInt64) throws {
        try withEngines { url, engines in
            let (connection, record, trees) = try history(url, engines[0], seed: seed, 120)
            defer { connection.close() }
            for seq in 0..<trees.count {
                try #require(try tree(connection, record, at: Int64(seq)).root == trees[seq], "seq \(seq)")
            }
            let path = Path(splitting: "/a")
            for seq in stride(from: 0, to: trees.count, by: 7) {
                #expect(try tree(connection, record, at: Int64(seq), within: path).root[path] == trees[seq][path])
            }
            // A snapshot of the present made by the server, and a past one made by the test.
            #expect(try connection.takeSnapshot(record.id) == record.head)
            try connection.saveSnapshot(record.id, at: 60, trees[60])
            for seq in [0, 59, 60, 61, 119, 120] {
                let past = try tree(connection, record, at: Int64(seq))
                #expect(past.root == trees[seq])
                #expect(past.startSeq == (seq < 60 ? 0 : seq < 120 ? 60 : 120))
            }
            let result = try Verification.run(connection, record)
            #expect(result.isClean, "\(result.problems)")
        }
    }

    @Test func verifyFindsADamagedSnapshot() throws {
        try withEngines { url, engines in
            let (connection, record, _) = try history(url, engines[0], seed: 21, 20)
            defer { connection.close() }
            _ = try engines[0].namespace("test").write(.set("/damage", .string("whole")))
            let head = try connection.takeSnapshot(record.id)
            #expect(try Verification.run(connection, record).isClean)
            let damaged = try connection.sql.execute(
                "update pathmirror.snapshot_chunk set leaves = replace(leaves::text, '\"whole\"', '\"hole\"')::json")
            #expect(damaged.affectedRows == 1)
            let result = try Verification.run(connection, record)
            #expect(result.problems.contains { $0.contains("snapshot at seq \(head)") && $0.contains("/damage") })
        }
    }

    /// Checks that after pruning all retained trees are unchanged, verification is clean, and older trees are refused.
    @Test func pruningKeepsWhatItPromises() throws {
        try withEngines(1, smallPartitions(32)) { url, engines in
            try shareLog(upTo: 32, url)
            let (connection, record, trees) = try history(url, engines[0], seed: 31, 150)
            defer { connection.close() }
            let before = try ownPartitions(connection)
            let pruning = Pruning(connection, record)
            let plan = try pruning.plan(.entries(50), force: false)
            #expect(plan.newFrom == 101)
            #expect(plan.partitions == Array(before.prefix(2)), "seqs 32–63, 64–95")
            #expect(plan.deletedEntries == 36, "1 to 31 in the shared tables, 96 to 100")
            try pruning.run(plan)
            #expect(try ownPartitions(connection) == Array(before.dropFirst(2)))
            let pruned = try #require(try connection.namespace(id: record.id))
            #expect(pruned.retainedFrom == 101)
            #expect(try connection.sql.execute("select count(*), min(seq) from pathmirror.log").int64(0, 0) == 50)
            let result = try Verification.run(connection, record)
            #expect(result.isClean, "\(result.problems)")
            #expect(result.startSeq == 100)
            for seq in 100...150 { try #require(try tree(connection, pruned, at: Int64(seq)).root == trees[seq]) }
            #expect(throws: ReplayError.notRetained(seq: 99, oldest: 100)) { try tree(connection, pruned, at: 99) }
            // A second prune finds nothing to do.
            #expect(try pruning.plan(.entries(50), force: false).isEmpty)
            // A later prune removes the snapshot that is no longer needed.
            let last = try pruning.plan(.entries(0), force: false)
            #expect(last.newFrom == 151)
            try pruning.run(last)
            #expect(try connection.snapshots(record.id).map(\.seq) == [150])
            #expect(try Verification.run(connection, record).isClean)
            // The gateway continues unaffected.
            let live = try engines[0].namespace("test")
            #expect(live.write(.set("/after", .int(1)))?.committedSeq == 151)
            #expect(try Verification.run(connection, record).isClean)
        }
    }

    @Test func cursorsKeepTheLog() throws {
        try withEngines { url, engines in
            let (connection, record, _) = try history(url, engines[0], seed: 41, 40)
            defer { connection.close() }
            _ = try connection.sql.execute(
                "insert into pathmirror.cursor (namespace_id, kind, name, seq) values ($1, 'feed', 'orders', 12)",
                [.int8(record.id)])
            let pruning = Pruning(connection, record)
            let kept = try pruning.plan(.entries(5), force: false)
            #expect(kept.newFrom == 13)
            #expect(kept.holders.map { "\($0.kind) \($0.name) \($0.seq)" } == ["feed orders 12"])
            let forced = try pruning.plan(.entries(5), force: true)
            #expect(forced.newFrom == 36)
            try pruning.run(kept)
            #expect(try Verification.run(connection, record).isClean)
        }
    }

    /// Checks that a prune that was interrupted after any step is completed by the next one.
    @Test func anInterruptedPruneIsEnded() throws {
        try withEngines(1, smallPartitions(16)) { url, engines in
            try shareLog(upTo: 16, url)
            let (connection, record, trees) = try history(url, engines[0], seed: 51, 60)
            defer { connection.close() }
            let pruning = Pruning(connection, record)
            let plan = try pruning.plan(.entries(10), force: false)
            // Interrupted after the namespace was marked and one partition was detached.
            struct Cut: Error {}
            try connection.saveSnapshot(record.id, at: plan.newFrom - 1, trees[Int(plan.newFrom) - 1], for: .prune)
            _ = try connection.sql.execute(
                "update pathmirror.namespace set retained_from = $1", [.int8(plan.newFrom)])
            try connection.sql.executeScript(
                "alter table pathmirror.log_rest detach partition pathmirror.\(plan.partitions[0])")
            let rest = try pruning.plan(.entries(10), force: false)
            #expect(rest.partitions == plan.partitions)
            try pruning.run(rest)
            #expect(try connection.sql.execute("select min(seq) from pathmirror.log").int64(0, 0) == plan.newFrom)
            #expect(try Verification.run(connection, record).isClean)
            #expect(try pruning.plan(.entries(10), force: false).isEmpty)
        }
    }

    @Test func timesFindTheirSeq() throws {
        try withEngines { url, engines in
            let (connection, record, _) = try history(url, engines[0], seed: 61, 30)
            defer { connection.close() }
            // Entry n was committed at minute n of an hour.
            _ = try connection.sql.execute(
                "update pathmirror.log set committed_at = timestamptz '2026-01-31 12:00:00Z' + seq * interval '1 minute'"
            )
            let seq = { (text: String) in try SeqOrTime(text).seq(connection, record) }
            #expect(try seq("2026-01-31T12:07:00Z") == 7)
            #expect(try seq("2026-01-31 12:07:59.9") == 7)
            #expect(try seq("2026-01-31T14:08:00+02:00") == 8)
            #expect(try seq("2026-01-31T12:00:59Z") == 0)
            #expect(try seq("2027-01-01") == 30)
            #expect(try seq("head") == 30)
            #expect(throws: ReplayError.self) { try seq("31") }
            #expect(throws: ReplayError.badPosition("2026-99-99")) { try seq("2026-99-99") }
            #expect(throws: ReplayError.badPosition("yesterday")) { try seq("yesterday") }
            // A relative time is accepted only for the present, not for retained positions.
            #expect(throws: ReplayError.badPosition("1h")) { try seq("1h") }
        }
    }

    /// Checks relative times by the database's clock, with ten entries one day apart, the last one an hour old.
    @Test func howLongAgoNamesASeq() throws {
        try withEngines { url, engines in
            let (connection, record, _) = try history(url, engines[0], seed: 91, 10)
            defer { connection.close() }
            _ = try connection.sql.execute(
                "update pathmirror.log set committed_at = clock_timestamp() - (10 - seq) * interval '1 day' - interval '1 hour'"
            )
            let position = { (text: String) in try SeqOrTime(argument: text) }
            let seq = { (text: String) in try position(text).seq(connection, record) }
            for (text, expected) in [
                ("30s", 10), ("59m", 10), ("2h", 9), ("-2h", 9), ("1d", 9), ("-26h", 8), ("1w", 3),
                ("9d", 1), ("30d", 0),
                ("now", 10), ("0s", 10), ("7", 7), ("head", 10),
            ] as [(String, Int64)] {
                #expect(try seq(text) == expected, "\(text)")
            }
            #expect(try position("2h").firstSeq(connection, record) == 10)
            #expect(try position("7").firstSeq(connection, record) == 7)
            for text in ["h", "-h", "1", "1y", "1 h", "1.5h", "--1h", "+1h", "9999999999999999999h", "400000d", "٣h"]
            where text != "1" {
                #expect(throws: ReplayError.badPosition(text)) { try seq(text) }
            }
        }
    }

    /// Checks that entries applied elsewhere give the same tree, each entry once, also after interruptions.
    @Test(arguments: [71, 72] as [UInt64])
    func appliedEntriesMakeTheSameTree(seed: UInt64) throws {
        try withEngines { url, engines in
            var (connection, record, trees) = try history(url, engines[0], seed: seed, 150)
            defer { connection.close() }
            // Adds a bulk entry.
            let importer = try Importer(connection, record, at: Path(splitting: "/bulk"))
            for number in 0..<500 { try importer.add(Array("/bulk/\(number)".utf8), .int(Int64(number))) }
            try importer.finish()
            record = try #require(try connection.namespace(id: record.id))
            trees.append(try connection.loadTree(record.id).root)
            var lines: [LogLine] = []
            try LogLines(connection, record).run(from: 1, to: record.head, time: { "\($0)" }) { lines.append($0) }
            let target = try #require(try connection.namespace(named: "copy", creating: true))
            func apply(_ lines: some Sequence<LogLine>) throws -> EntryApplier {
                let applier = EntryApplier(connection, target)
                applier.batchEntries = 7
                for (number, line) in lines.enumerated() {
                    let text = line.json
                    try applier.add(LogLine(text, number: number + 1), number: number + 1, byteCount: text.count)
                }
                try applier.finish()
                return applier
            }
            // Interrupted within a batch, then started again: applied entries are not applied twice.
            #expect(try apply(lines[..<60]).appliedCount == 60)
            let second = try apply(lines)
            #expect(second.appliedCount == Int(record.head) - 60)
            #expect(second.knownCount == 60)
            #expect(try StoredRow.all(connection, record.id) == StoredRow.all(connection, target.id))
            let third = try apply(lines)
            #expect(third.appliedCount == 0)
            #expect(try connection.namespace(id: target.id)?.head == record.head)
            #expect(try connection.loadTree(target.id).root == trees.last)
            let result = try Verification.run(connection, target)
            #expect(result.isClean, "\(result.problems) \(result.differences.prefix(3))")
            // An incomplete bulk entry is refused as a whole.
            let bulkStart = try #require(lines.firstIndex { if case .bulk = $0.content { true } else { false } })
            let other = try #require(try connection.namespace(named: "other", creating: true))
            let applier = EntryApplier(connection, other)
            try applier.add(lines[bulkStart], number: 1, byteCount: 100)
            try applier.add(lines[bulkStart + 1], number: 2, byteCount: 100)
            #expect(throws: ReplayError.self) { try applier.finish() }
            #expect(try connection.namespace(id: other.id)?.head == 0)
            #expect(try StoredRow.all(connection, other.id).isEmpty)
        }
    }

    /// Checks that a bulk entry's parts have the effect of their changes on an existing tree, with priorities and
    /// removals between.
    @Test(arguments: [1, 2, 3, 4, 5, 6, 7, 8] as [UInt64])
    func partsDoWhatTheirChangesDo(seed: UInt64) throws {
        try withSession { connection in
            var generator = TreeGenerator(seed: seed)
            let record = try connection.make("bulk")
            let head = LogLine.Head(operation: .update, path: .root, committedAt: "0", origin: nil)
            var root = Node.null
            for seq in 1...40 as ClosedRange<Int64> {
                let changes = generator.partChanges(30)
                let parts = [Array(changes.prefix(20)), Array(changes.dropFirst(20))]
                let applier = EntryApplier(connection, record)
                for content: LogLine.Content in [.bulk(head, []), .part(parts[0]), .part(parts[1]), .end(parts: 2)] {
                    try applier.add(LogLine(source: "test", seq: seq, content: content), number: 1, byteCount: 1)
                }
                try applier.finish()
                for change in ApplicationOrder.sorted(changes) {
                    root = root.replacing(change.path, with: change.value)
                }
                try #require(try connection.loadTree(record.id).root == root, "entry \(seq)")
            }
            #expect(try Verification.run(connection, record).isClean)
        }
    }

    /// Checks a batch that is longer than the remainder of the log's last partition.
    @Test func appliedEntriesOverPartitions() throws {
        try withSession(sharingUpTo: 8) {
            $0.entriesPerPartition = 8
        } _: { connection in
            let source = try connection.make("source")
            var writer = BatchWriter(source)
            for number in 0..<50 { _ = try connection.commit(writer.set("k\(number % 7)", .int(Int64(number)))) }
            let record = try #require(try connection.namespace(id: source.id))
            let target = try connection.make("target")
            // The target's partitions end within the batch.
            try connection.ensurePartition(target.id, upTo: 8)
            let applier = EntryApplier(connection, target)
            var number = 0
            try LogLines(connection, record).run(from: 1, to: record.head, time: { "\($0)" }) { line in
                number += 1
                try applier.add(line, number: number, byteCount: 10)
            }
            try applier.finish()
            #expect(applier.appliedCount == 50)
            #expect(try connection.loadTree(target.id).root == writer.root)
            #expect(try Verification.run(connection, target).isClean)
        }
    }

    @Test func blameNamesTheWriters() throws {
        try withEngines { url, engines in
            let live = try engines[0].namespace("test")
            _ = live.write(.set("/a/b", .int(1)))
            _ = live.write(.set("/x", .int(1)))
            _ = live.write(.set("/a", .null))
            _ = live.write(.update("/", [("a/b/c", .int(2)), ("x", .int(3))]))
            _ = live.write(.set("/ab", .int(1)))
            _ = live.write(.set("/a/b/d", .int(4)))
            let connection = try LogConnection(url)
            defer { connection.close() }
            let record = try #require(try connection.namespace(named: "test"))
            let blame = { (path: String) throws -> [String] in
                var found: [String] = []
                try Blame.run(connection, record, Path(splitting: path)) { line in
                    found.append("\(line.entry.seq)\(line.isCurrent ? "*" : "")")
                    return true
                }
                return found
            }
            #expect(try blame("/a/b") == ["6*", "4*", "3", "1"])
            #expect(try blame("/a/b/d") == ["6*", "3", "1"])
            #expect(try blame("/ab") == ["5*"])
            #expect(try blame("/") == ["6*", "5*", "4*", "3", "2", "1"])
            #expect(try blame("/nowhere") == [])
        }
    }

    /// Checks that `log verify` gives each projection the tree at its own cursor, and reports its findings.
    @Test func projectionsAreComparedAtTheirCursors() throws {
        try withEngines { url, engines in
            let (connection, record, trees) = try history(url, engines[0], seed: 81, 30)
            defer { connection.close() }
            let good = [0, 7, 30].map { CopyOfTree(name: "copy \($0)", seq: $0, tree: trees[Int($0)]) }
            let clean = try Verification.run(connection, record, projections: good)
            #expect(clean.isClean, "\(clean.problems)")
            #expect(clean.projections == ["copy 0", "copy 7", "copy 30"])
            let bad: [any VerifiableProjection] = [
                CopyOfTree(name: "stale", seq: 30, tree: trees[7]), CopyOfTree(name: "unbuilt", seq: nil, tree: .null),
                CopyOfTree(name: "ahead", seq: 99, tree: .null),
            ]
            let found = try Verification.run(connection, record, projections: bad)
            #expect(found.problems.contains("stale: it is another tree"))
            #expect(found.problems.contains { $0.hasPrefix("unbuilt has no cursor") })
            #expect(found.problems.contains { $0.hasPrefix("ahead is at seq 99") })
        }
    }
}

private struct CopyOfTree: VerifiableProjection {
    let name: String
    let seq: Int64?
    let tree: Node

    func cursor(_ connection: LogConnection) -> Int64? { seq }

    func compare(with root: Node, at seq: Int64, _ connection: LogConnection) -> [String] {
        root == tree && seq == self.seq ? [] : ["it is another tree"]
    }
}

extension TreeGenerator {
    /// Changes at different paths: mostly leaves, but also priorities, removals and subtrees. No path is below another,
    /// except that a leaf may come with its priority.
    fileprivate mutating func partChanges(_ count: Int) -> [Change] {
        var changes: [Change] = []
        for _ in 0..<count {
            let path = path(maxDepth: 3)
            let value = random.oneIn(12) ? .null : random.oneIn(12) ? tree(depth: 2) : bareLeaf()
            let isFree = !changes.contains { $0.path.contains(path) || path.contains($0.path) }
            if isFree { changes.append(Change(path: path, value: value)) }
            if random.oneIn(6), isFree || !changes.contains(where: { $0.path.contains(path) }) {
                let priorityPath = path.appending(.priority)
                if !changes.contains(where: { $0.path == priorityPath }) {
                    changes.append(Change(path: priorityPath, value: priority()))
                }
            }
        }
        return changes
    }
}

/// Checks that `log prune --keep 30d` uses PostgreSQL's clock, and only if the clock can be trusted.
@Suite struct ReplayClockTests {
    private func withLog(_ body: (LogConnection, NamespaceRecord) throws -> Void) throws {
        try withSession { connection in
            let record = try connection.make()
            var writer = BatchWriter(record)
            for number in 0..<10 { _ = try connection.commit(writer.set("k\(number)", .int(Int64(number)))) }
            _ = try connection.sql.execute(
                "update pathmirror.log set committed_at = now() - interval '40 days' where seq <= 5")
            try body(connection, record)
        }
    }

    @Test func ageIsRefusedWhereTheClocksDiffer() throws {
        try withLog { connection, record in
            let now = try connection.sql.execute("select (extract(epoch from now()) * 1000)::bigint").int64(0, 0)
            #expect(try Pruning(connection, record).plan(.seconds(86_400), force: false).newFrom == 6)
            for (apart, isRefused) in [(290, false), (-290, false), (310, true), (-310, true)] as [(Int64, Bool)] {
                let pruning = Pruning(connection, record, machineClock: { now + apart * 1_000 })
                do {
                    _ = try pruning.plan(.seconds(86_400), force: true)
                    #expect(!isRefused, "\(apart) s")
                } catch let error as ReplayError {
                    #expect(isRefused, "\(apart) s")
                    guard case .clocksDiffer(let ahead) = error else {
                        Issue.record("\(error)")
                        continue
                    }
                    #expect((ahead > 0) == (apart < 0))
                    #expect("\(error)".contains("--trust-clock") && "\(error)".contains("Nothing was dropped"))
                }
                #expect(try pruning.plan(.seconds(86_400), force: false, trustsClock: true).newFrom == 6)
                // Keeping a number of entries needs no clock.
                #expect(try pruning.plan(.entries(3), force: false).newFrom == 8)
            }
        }
    }

    @Test func ageIsRefusedWhereTheClockLagsTheLog() throws {
        try withLog { connection, record in
            _ = try connection.sql.execute(
                "update pathmirror.log set committed_at = now() + interval '2 hours' where seq = 10")
            let pruning = Pruning(connection, record)
            let error = #expect(throws: ReplayError.self) { try pruning.plan(.seconds(86_400), force: false) }
            guard case .clockBehindLog(let seconds) = error else {
                Issue.record("\(String(describing: error))")
                return
            }
            #expect((7_100...7_200).contains(seconds))
            #expect(try pruning.plan(.seconds(86_400), force: false, trustsClock: true).newFrom == 6)
            #expect(try pruning.plan(.entries(3), force: false).newFrom == 8)
        }
    }
}
