import LogStore
import TestSupport
import Testing
import Tree

/// Tests of imports, pruning and verification.
@Suite struct ContractKeepingTests {
    // MARK: Import

    @Test(arguments: ContractStore.all, [nil, 1, 4] as [Int?])
    func anImportReplacesWhatIsThere(_ store: ContractStore, rowsPerChunk: Int?) throws {
        try store.with { opened in
            let one = try opened.connect()
            defer { one.close() }
            var writer = try one.writer()
            let old = try JSONParser.parse("{\"a\":{\"old\":1,\"deep\":{\"x\":2}},\"b\":3}")
            #expect(try one.commit(writer.set("", old)) == .committed)
            let leaves = (0..<10).map { (path: "/a/k\($0)", value: Node.int(Int64($0))) }
            let last = try one.importLeaves(leaves, to: "test", at: Path(splitting: "a"), rowsPerChunk: rowsPerChunk)
            #expect(last == 1 + Int64(rowsPerChunk.map { (10 + $0 - 1) / $0 } ?? 1))
            #expect(try one.head(writer.namespace)?.seq == last)
            var wanted = Node.null.replacing(Path(splitting: "b"), with: .int(3))
            for leaf in leaves { wanted = wanted.replacing(Path(splitting: leaf.path), with: leaf.value) }
            #expect(try one.tree(writer.namespace).root == wanted)
            var reader = TreeReader(writer.namespace)
            try reader.catchUp(one)
            #expect(reader.root == wanted)
            #expect(try one.verify(writer.namespace) == [])
            let entries = try one.entries(writer.namespace, after: 1)
            #expect(entries.allSatisfy { $0.entry.operation == .load && $0.entry.isBulk })
        }
    }

    @Test(arguments: ContractStore.all)
    func anImportMakesItsNamespace(_ store: ContractStore) throws {
        try store.with { opened in
            let one = try opened.connect()
            defer { one.close() }
            #expect(try one.importLeaves([("/a", .int(1))], to: "new", at: .root, rowsPerChunk: nil) == 1)
            let namespace = try one.makeNamespace("new")
            #expect(try one.head(namespace)?.seq == 1)
            #expect(try one.tree(namespace).root == Node.null.replacing(Path(splitting: "a"), with: .int(1)))
            #expect(try one.importLeaves([], to: "new", at: .root, rowsPerChunk: nil) == 2, "nothing replaces it")
            #expect(try one.tree(namespace).root == .null)
            #expect(try one.verify(namespace) == [])
        }
    }

    @Test(arguments: ContractStore.all)
    func gatewaysContinueAfterAnImport(_ store: ContractStore) throws {
        try store.with { opened in
            let one = try opened.connect()
            defer { one.close() }
            var writer = try one.writer()
            let lost = writer.set("a", .int(1))
            #expect(
                try one.importLeaves([("/i/x", .int(1))], to: "test", at: Path(splitting: "i"), rowsPerChunk: nil) == 1)
            #expect(try one.commit(lost) == .headMoved)
            #expect(try one.findBatch(lost) == false)
            var reader = TreeReader(writer.namespace)
            try reader.catchUp(one)
            writer = BatchWriter(namespace: writer.namespace)
            writer.root = reader.root
            writer.head = reader.log.position.seq
            #expect(try one.commit(writer.set("a", .int(2))) == .committed)
            #expect(try one.tree(writer.namespace).root == writer.root)
            #expect(try one.verify(writer.namespace) == [])
        }
    }

    // MARK: Pruning

    @Test(arguments: ContractStore.all, [0, 1, 10, 39, 40, 100] as [Int64])
    func pruningKeepsTheLastEntries(_ store: ContractStore, kept: Int64) throws {
        try store.with { opened in
            let one = try opened.connect()
            defer { one.close() }
            var random = TreeGenerator(seed: UInt64(kept) + 1)
            let writer = try ContractFollowTests.fill(one, &random, count: 40)
            let before = try one.head(writer.namespace)
            try one.prune(writer.namespace, keeping: kept)
            let first = max(1, writer.head - kept + 1)
            #expect(try one.entries(writer.namespace).map(\.entry.seq) == Array(first..<(writer.head + 1)))
            #expect(try one.head(writer.namespace) == before)
            #expect(try one.tree(writer.namespace).root == writer.root)
            #expect(try one.verify(writer.namespace) == [])
            // Pruning again has no effect.
            try one.prune(writer.namespace, keeping: kept)
            #expect(try one.verify(writer.namespace) == [])
        }
    }

    /// Checks that readers within the retained part of a log continue, and that other readers load the tree once.
    @Test(arguments: ContractStore.all)
    func readersOfAPrunedLog(_ store: ContractStore) throws {
        try store.with { opened in
            let one = try opened.connect()
            defer { one.close() }
            var writer = try one.writer()
            var readers = [TreeReader(writer.namespace, pageEntries: 3)]
            for number in 0..<12 {
                #expect(try one.commit(writer.set("k\(number)", .int(1))) == .committed)
                var reader = readers[number]
                try reader.catchUp(one)
                readers.append(reader)
            }
            try one.prune(writer.namespace, keeping: 5)
            for (seen, reader) in readers.enumerated() {
                var reader = reader
                try reader.catchUp(one)
                #expect(reader.root == writer.root, "from \(seen)")
                #expect(reader.loads == (seen < 7 ? 1 : 0), "from \(seen)")
            }
            // All entries are pruned, so only the head is known.
            try one.prune(writer.namespace, keeping: 0)
            for (seen, reader) in readers.enumerated() {
                var reader = reader
                try reader.catchUp(one)
                #expect(reader.root == writer.root, "from \(seen)")
                #expect(reader.loads == (seen < 12 ? 1 : 0), "from \(seen)")
            }
            #expect(try one.commit(writer.set("after", .int(1))) == .committed)
            #expect(try one.verify(writer.namespace) == [])
        }
    }

    @Test(arguments: ContractStore.all)
    func pastTreesAreWhatTheyWere(_ store: ContractStore) throws {
        try store.with { opened in
            let one = try opened.connect()
            defer { one.close() }
            var writer = try one.writer()
            var random = TreeGenerator(seed: 5)
            var trees = [Node.null]
            for _ in 0..<30 {
                #expect(try one.commit(writer.batch([[random.change(maxDepth: 3)]])) == .committed)
                trees.append(writer.root)
            }
            for seq in 0...30 { #expect(try one.tree(writer.namespace, asOf: Int64(seq)) == trees[seq], "seq \(seq)") }
            #expect(throws: (any Error).self) { try one.tree(writer.namespace, asOf: 31) }
            try one.prune(writer.namespace, keeping: 10)
            for seq in 20...30 { #expect(try one.tree(writer.namespace, asOf: Int64(seq)) == trees[seq], "seq \(seq)") }
            #expect(throws: (any Error).self) { try one.tree(writer.namespace, asOf: 19) }
        }
    }

    // MARK: Verification

    @Test(arguments: ContractStore.all, [1, 2, 3, 4, 5, 6] as [UInt64])
    func whateverWasDoneIsClean(_ store: ContractStore, seed: UInt64) throws {
        try store.with { opened in
            let one = try opened.connect()
            defer { one.close() }
            var random = TreeGenerator(seed: seed)
            let writer = try ContractFollowTests.fill(one, &random, count: 25)
            #expect(try one.verify(writer.namespace) == [])
            try one.prune(writer.namespace, keeping: Int64(random.random.below(25)))
            #expect(try one.verify(writer.namespace) == [])
            #expect(try one.tree(writer.namespace).root == writer.root)
        }
    }

    @Test(arguments: ContractStore.all, ContractStore.Damage.allCases)
    func damageIsFound(_ store: ContractStore, damage: ContractStore.Damage) throws {
        try store.with { opened in
            let one = try opened.connect()
            defer { one.close() }
            var writer = try one.writer()
            for number in 0..<9 {
                #expect(try one.commit(writer.set("k\(number)", .string("whole \(number)"))) == .committed)
            }
            #expect(try one.verify(writer.namespace) == [])
            try opened.damage(damage, writer.namespace)
            #expect(try one.verify(writer.namespace) != [], "\(damage)")
        }
    }

    /// Checks that damage in one namespace is not reported for another.
    @Test(arguments: ContractStore.all)
    func damageIsTheNamespacesOwn(_ store: ContractStore) throws {
        try store.with { opened in
            let one = try opened.connect()
            defer { one.close() }
            var (writer, other) = (try one.writer("damaged"), try one.writer("whole"))
            for number in 0..<5 {
                #expect(try one.commit(writer.set("k\(number)", .int(1))) == .committed)
                #expect(try one.commit(other.set("k\(number)", .int(1))) == .committed)
            }
            for damage in ContractStore.Damage.allCases { try opened.damage(damage, writer.namespace) }
            #expect(try one.verify(writer.namespace).count > 1)
            #expect(try one.verify(other.namespace) == [])
        }
    }
}
