import LogStore
import TestSupport
import Testing
import Tree

/// Checks that appended batches appear in the log unchanged, at the next seqs, and in the tree.
@Suite struct ContractAppendTests {
    @Test(arguments: ContractStore.all)
    func aNewNamespaceIsEmpty(_ store: ContractStore) throws {
        try store.with { opened in
            let one = try opened.connect()
            defer { one.close() }
            let namespace = try one.makeNamespace("test")
            #expect(try one.makeNamespace("test") == namespace, "made once")
            #expect(try one.head(namespace)?.seq == 0)
            #expect(try one.head(namespace)?.batch?.isEmpty == false, "its own key stands for the batch")
            #expect(try one.head(namespace + 1_000) == nil)
            #expect(try one.entries(namespace).isEmpty)
            let tree = try one.tree(namespace)
            #expect(tree.root == .null)
            let head = try one.head(namespace)
            #expect(tree.at == head)
            #expect(try one.verify(namespace) == [])
        }
    }

    @Test(arguments: ContractStore.all)
    func aBatchTakesTheNextSeqs(_ store: ContractStore) throws {
        try store.with { opened in
            let one = try opened.connect()
            defer { one.close() }
            var writer = try one.writer()
            let sizes = [1, 3, 1, 30, 2]
            var batches: [Batch] = []
            for (index, size) in sizes.enumerated() {
                let batch = writer.batch(
                    (0..<size).map { [Change(path: Path(splitting: "b\(index)/k\($0)"), value: .int(Int64($0)))] })
                #expect(try one.commit(batch) == .committed)
                #expect(try one.head(writer.namespace) == LogPosition(seq: writer.head, batch: batch.id))
                batches.append(batch)
            }
            let entries = try one.entries(writer.namespace)
            #expect(entries.map(\.entry.seq) == Array(1...37))
            #expect(entries.map(\.batchID) == zip(batches, sizes).flatMap { Array(repeating: $0.id, count: $1) })
            #expect(try one.tree(writer.namespace).root == writer.root)
            #expect(try one.tree(writer.namespace).at == LogPosition(seq: 37, batch: batches[4].id))
        }
    }

    @Test(arguments: ContractStore.all)
    func anEntrySaysWhatWasWritten(_ store: ContractStore) throws {
        try store.with { opened in
            let one = try opened.connect()
            defer { one.close() }
            var writer = try one.writer()
            let path = Path(splitting: "a/ü/\u{1F600}")
            let values: [Node] = [
                .string("\u{0}\u{FFFD}\"\\"), .int(9_007_199_254_740_993), .double(0.1), .double(-0.0), .bool(false),
                .string("x").withPriority(.string("p")),
                try JSONParser.parse("{\"0\":1,\"10\":{\"b\":null,\"c\":[1,2]}}"),
            ]
            var written: [[Change]] = []
            for operation in Tree.Operation.allCases where operation != .rules && operation != .load {
                for value in values {
                    let changes = [Change(path: path, value: value), Change(path: Path(splitting: "b"), value: .null)]
                    let rows = writer.batch([changes])
                    let origin = Origin(uid: "u \"1\"", isAdmin: false, via: .rest, address: "10.0.0.1")
                    let record = Batch.Record(
                        operation: operation, path: path, changes: ChangeCodec.encode(changes), origin: origin)
                    let batch = Batch(
                        namespace: rows.namespace, expectedHead: rows.expectedHead, id: rows.id, records: [record],
                        rows: rows.rows)
                    #expect(try one.commit(batch) == .committed)
                    written.append(ApplicationOrder.sorted(changes))
                    let entry = try #require(try one.entries(writer.namespace, after: writer.head - 1).first?.entry)
                    #expect(entry.operation == operation)
                    #expect(entry.path == path)
                    #expect(entry.origin?.json == origin.json)
                    #expect(!entry.isBulk)
                }
            }
            #expect(try one.entries(writer.namespace).map(\.entry.changes) == written)
            #expect(try one.tree(writer.namespace).root == writer.root)
        }
    }

    @Test(arguments: ContractStore.all)
    func timesNeverStepBack(_ store: ContractStore) throws {
        try store.with { opened in
            let connections = [try opened.connect(), try opened.connect()]
            defer { for connection in connections { connection.close() } }
            var writer = try connections[0].writer()
            for number in 0..<40 {
                #expect(
                    try connections[number % 2].commit(writer.set("a", .int(Int64(number)))) == .committed)
            }
            let times = try connections[0].entries(writer.namespace).map(\.entry.committedAt)
            #expect(times == times.sorted())
            #expect(times.allSatisfy { $0 > 1_600_000_000_000 })
        }
    }

    @Test(arguments: ContractStore.all)
    func namespacesKnowNothingOfOneAnother(_ store: ContractStore) throws {
        try store.with { opened in
            let one = try opened.connect()
            defer { one.close() }
            var writers = try ["one", "two", "three"].map { try one.writer($0) }
            for round in 0..<10 {
                for index in writers.indices where round % (index + 1) == 0 {
                    #expect(try one.commit(writers[index].set("k\(round)", .string("\(index)"))) == .committed)
                }
            }
            for writer in writers {
                #expect(try one.head(writer.namespace)?.seq == writer.head)
                #expect(try one.tree(writer.namespace).root == writer.root)
                #expect(try one.entries(writer.namespace).count == Int(writer.head))
                #expect(try one.verify(writer.namespace) == [])
            }
        }
    }

    /// Checks that random trees written over random trees are stored as written, however they are sent.
    @Test(arguments: ContractStore.all, [1, 2, 3, 4, 5, 6] as [UInt64])
    func theTreeIsWhatTheEntriesLeadTo(_ store: ContractStore, seed: UInt64) throws {
        try store.with { opened in
            let one = try opened.connect()
            defer { one.close() }
            var writer = try one.writer()
            var random = TreeGenerator(seed: seed)
            for _ in 0..<30 {
                let writes = (0...random.random.below(4)).map { _ in [random.change(maxDepth: 3)] }
                #expect(try one.commit(writer.batch(writes)) == .committed)
            }
            #expect(try one.tree(writer.namespace).root == writer.root)
            var reader = TreeReader(writer.namespace, pageEntries: 7)
            try reader.catchUp(one)
            #expect(reader.root == writer.root)
            #expect(reader.loads == 0)
            #expect(try one.verify(writer.namespace) == [])
        }
    }

    @Test(arguments: ContractStore.all)
    func rulesAreAnEntryOfTheirOwn(_ store: ContractStore) throws {
        try store.with { opened in
            let one = try opened.connect()
            defer { one.close() }
            var writer = try one.writer()
            #expect(try one.commit(writer.set("a", .int(1))) == .committed)
            let before = try one.tree(writer.namespace).root
            let source = "{\"rules\":{\".read\":true, \"ü\":{}}}\n"
            #expect(try one.setRules(writer.namespace, source) == 2)
            #expect(try one.rules(writer.namespace, at: 2) == source)
            #expect(try one.rules(writer.namespace, at: 1) == nil)
            var log = LogFollower(writer.namespace, at: LogPosition(seq: 1)) { $0.separatesKinds = true }
            guard case .rules(let logged) = try one.next(&log) else {
                Issue.record("no entry with rules")
                return
            }
            #expect(logged.entry.seq == 2)
            #expect(logged.entry.changes.isEmpty)
            #expect(try one.tree(writer.namespace).root == before)
            #expect(try one.verify(writer.namespace) == [])
        }
    }
}
