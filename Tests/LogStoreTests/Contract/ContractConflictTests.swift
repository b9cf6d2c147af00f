import LogStore
import Runtime
import Synchronization
import TestSupport
import Testing
import Tree

/// Checks that a write based on an old state has no effect, and that each write of many concurrent writers appears in
/// the log exactly once.
@Suite struct ContractConflictTests {
    @Test(arguments: ContractStore.all)
    func aBatchOnAnOldHeadWritesNothing(_ store: ContractStore) throws {
        try store.with { opened in
            let (one, two) = (try opened.connect(), try opened.connect())
            defer {
                one.close()
                two.close()
            }
            var writer = try one.writer()
            for size in [1, 40] {
                var late = writer
                let many = (0..<size).map { [Change(path: Path(splitting: "k\($0)"), value: .int(Int64(size)))] }
                #expect(try one.commit(writer.set("a", .int(Int64(size)))) == .committed)
                let lost = late.batch(many)
                #expect(try two.commit(lost) == .headMoved)
                #expect(try two.findBatch(lost) == false)
                #expect(try two.head(writer.namespace)?.seq == writer.head)
                #expect(try two.tree(writer.namespace).root == writer.root)
                #expect(try one.verify(writer.namespace) == [])
                // A writer that has seen the newest state can write, on either connection.
                #expect(try two.commit(writer.batch(many)) == .committed)
            }
        }
    }

    @Test(arguments: ContractStore.all)
    func aBatchAheadOfTheLogWritesNothing(_ store: ContractStore) throws {
        try store.with { opened in
            let one = try opened.connect()
            defer { one.close() }
            var writer = try one.writer()
            _ = writer.set("never sent", .int(1))
            #expect(try one.commit(writer.set("a", .int(1))) == .headMoved)
            #expect(try one.head(writer.namespace)?.seq == 0)
            #expect(try one.tree(writer.namespace).root == .null)
        }
    }

    /// Checks that a batch is refused if the head has the expected seq but another batch: the store has another
    /// history.
    @Test(arguments: ContractStore.all, [false, true])
    func aBatchOnAnotherHistoryWritesNothing(_ store: ContractStore, isLocked: Bool) throws {
        try store.with { opened in
            let one = try opened.connect()
            defer { one.close() }
            var writer = try one.writer()
            let first = writer.set("a", .int(1))
            #expect(try one.commit(first) == .committed)
            var other = writer
            let made = other.set("b", .int(2))
            for (expected, outcome) in [
                (Batch.makeID(), LogConnection.CommitOutcome.headMoved), (first.id, .committed),
            ] {
                let batch = Batch(
                    namespace: made.namespace, expectedHead: made.expectedHead, expectedBatch: expected,
                    id: Batch.makeID(), records: made.records, rows: made.rows)
                if isLocked { #expect(try one.lockHead(writer.namespace, expectedHead: 1) == 1) }
                #expect(try one.commit(batch, isLocked: isLocked) == outcome)
            }
            #expect(try one.tree(writer.namespace).root == other.root)
            #expect(try one.verify(writer.namespace) == [])
        }
    }

    @Test(arguments: ContractStore.all)
    func theHolderOfTheHeadAlwaysWrites(_ store: ContractStore) throws {
        try store.with { opened in
            let (one, two) = (try opened.connect(), try opened.connect())
            defer {
                one.close()
                two.close()
            }
            var writer = try one.writer()
            var late = writer
            #expect(try one.lockHead(writer.namespace, expectedHead: 0) == 0)
            // The other connection waits for the lock, and then finds the head moved.
            let outcome = Condition<Result<LogConnection.CommitOutcome, any Error>?>(nil)
            let other = Unchecked(two)
            let batch = late.set("b", .int(1))
            let thread = Thread(name: "late") {
                let result = Result { try other.value.commit(batch) }
                outcome.broadcast { $0 = result }
            }
            #expect(try one.commit(writer.set("a", .int(1)), isLocked: true) == .committed)
            #expect(try outcome.wait(milliseconds: 30_000) { $0 }?.get() == .headMoved)
            thread.join()
            #expect(try one.tree(writer.namespace).root == writer.root)
        }
    }

    @Test(arguments: ContractStore.all)
    func aHeadThatIsGivenBackIsFree(_ store: ContractStore) throws {
        try store.with { opened in
            let (one, two) = (try opened.connect(), try opened.connect())
            defer {
                one.close()
                two.close()
            }
            var writer = try one.writer()
            for _ in 0..<5 {
                let head = try one.lockHead(writer.namespace, expectedHead: 0)
                #expect(head == writer.head, "the newest, whatever was expected")
                one.unlockHead()
                #expect(try two.commit(writer.set("a", .int(head))) == .committed)
            }
            // The lock also ends with its connection.
            _ = try one.lockHead(writer.namespace, expectedHead: 0)
            one.close()
            #expect(try two.commit(writer.set("a", .string("end"))) == .committed)
            #expect(try two.verify(writer.namespace) == [])
        }
    }

    /// Checks that concurrent writers that read and retry produce gapless seqs and each write once, and that concurrent
    /// readers end with the same tree.
    @Test(arguments: ContractStore.all, [false, true])
    func manyWriters(_ store: ContractStore, locking: Bool) throws {
        try store.with { opened in
            let connections = try (0..<4).map { _ in Unchecked(try opened.connect()) }
            defer { for connection in connections { connection.value.close() } }
            let namespace = try connections[0].value.makeNamespace("test")
            let failures = Mutex<[String]>([])
            let threads = connections.enumerated().map { index, connection in
                Thread(name: "writer-\(index)") {
                    do {
                        try Self.write(25, as: index, namespace, connection.value, locking: locking)
                    } catch {
                        failures.withLock { $0.append("\(error)") }
                    }
                }
            }
            for thread in threads { thread.join() }
            #expect(failures.withLock { $0 } == [])
            let one = connections[0].value
            let entries = try one.entries(namespace)
            #expect(entries.map(\.entry.seq) == Array(1...100))
            let paths = Set(entries.flatMap { $0.entry.changes.map(\.path.description) })
            #expect(paths == Set((0..<4).flatMap { index in (0..<25).map { "/w\(index)/\($0)" } }))
            #expect(Set(entries.map(\.batchID)).count == 100)
            #expect(try one.tree(namespace).root.rowCount == 100)
            #expect(try one.verify(namespace) == [])
        }
    }

    /// Writes `count` leaves, one per batch, as a gateway does: reads, tries to commit, and reads again if the head has
    /// moved.
    private static func write(
        _ count: Int, as index: Int, _ namespace: Int64, _ connection: any LogContract, locking: Bool
    ) throws {
        var reader = TreeReader(namespace, pageEntries: 5)
        for number in 0..<count {
            while true {
                if locking { _ = try connection.lockHead(namespace, expectedHead: reader.log.position.seq) }
                try reader.catchUp(connection)
                var writer = BatchWriter(namespace: namespace)
                writer.root = reader.root
                writer.head = reader.log.position.seq
                let batch = writer.set("w\(index)/\(number)", .int(Int64(number)))
                if try connection.commit(batch, isLocked: locking) == .committed { break }
            }
        }
    }
}

/// Carries a connection to the one thread that uses it.
///
/// @unchecked Sendable is safe: the creating test waits for that thread before it uses the value again.
struct Unchecked<Value>: @unchecked Sendable {
    let value: Value

    init(_ value: Value) { self.value = value }
}
