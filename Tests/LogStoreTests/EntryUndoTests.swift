import Postgres
import TestSupport
import Testing
import Tree

@testable import LogStore

/// Undoing one entry: what was planned is what happens, or nothing does.
@Suite struct EntryUndoTests {
    private func undo(
        _ connection: LogConnection, _ record: NamespaceRecord, _ seq: Int64, from old: Node, to new: Node,
        maxRows: Int = 1_000
    ) throws -> EntryUndo {
        let now = try #require(try connection.namespace(id: record.id))
        let entry = try EntryUndo.entry(connection, now, seq)
        return try EntryUndo(connection, now, entry, from: old, to: new, maxRows: maxRows)
    }

    /// Any entry, small or in parts, for the stored tree and for the log.
    @Test(arguments: [1_000, 3])
    func anyEntryIsUndone(maxRows: Int) throws {
        try withSession { connection in
            let record = try connection.make()
            var random = TreeGenerator(seed: UInt64(maxRows))
            var writer = BatchWriter(record)
            _ = try connection.commit(writer.set("", random.tree(depth: 4)))
            for _ in 0..<25 {
                let before = writer.root
                let changes = ApplicationOrder.sorted(random.changes(atMost: 4, below: random.path(maxDepth: 1)))
                _ = try connection.commit(writer.batch([changes]))
                guard writer.root != before else { continue }
                do {
                    let undo = try undo(
                        connection, record, writer.head, from: before, to: writer.root, maxRows: maxRows)
                    try undo.check(through: writer.head)
                    #expect(try undo.write(after: writer.head) == writer.head + 1)
                    writer.head += 1
                    writer.root = before
                    #expect(try connection.loadTree(record.id).root == before)
                } catch UndoError.tooLarge {
                    #expect(maxRows == 3)
                }
            }
            let result = try Verification.run(connection, record)
            #expect(result.isClean, "\(result.problems) \(result.differences)")
        }
    }

    @Test func anEntryAfterThePlanIsSeenUnderTheLock() throws {
        try withSession { connection in
            let record = try connection.make()
            var writer = BatchWriter(record)
            _ = try connection.commit(writer.set("a/x", .int(1)))
            let before = writer.root
            _ = try connection.commit(writer.set("a/x", .int(2)))
            let plan = try undo(connection, record, 2, from: before, to: writer.root)
            try plan.check(through: 2)
            _ = try connection.commit(writer.set("b", .int(3)))
            _ = try connection.commit(writer.set("a", .int(4)))
            let error = #expect(throws: UndoError.self) { try plan.write(after: 2) }
            guard case .overwritten(2, let later) = error else {
                Issue.record("\(String(describing: error))")
                return
            }
            #expect(later.count == 1 && later.first.map(\.entry.seq) == [4])
            #expect(later.first.first?.paths == [Path(splitting: "a")])
            #expect(!connection.postgres.isInTransaction)
            #expect(try connection.loadTree(record.id).root == writer.root)
        }
    }

    /// A branch loses its priority with its last child, by an entry that names neither.
    @Test func aPriorityThatWentWithItsNode() throws {
        try withSession { connection in
            let record = try connection.make()
            var writer = BatchWriter(record)
            _ = try connection.commit(writer.set("a/x", .int(1)))
            let before = writer.root
            _ = try connection.commit(writer.set("a/.priority", .int(7)))
            let after = writer.root
            _ = try connection.commit(writer.set("a/y", .int(2)))
            try undo(connection, record, 2, from: before, to: after).check(through: 3)
            _ = try connection.commit(writer.set("a/y", .null))
            _ = try connection.commit(writer.set("a/x", .null))
            _ = try connection.commit(writer.set("a/x", .int(1)))
            let plan = try undo(connection, record, 2, from: before, to: after)
            let error = #expect(throws: UndoError.self) { try plan.check(through: 6) }
            guard case .overwritten(2, let later) = error else {
                Issue.record("\(String(describing: error))")
                return
            }
            #expect(later.first.map(\.entry.seq) == [3, 4, 5, 6])
        }
    }

    /// The inverse of a removed priority would write nothing if a later entry has removed the node.
    @Test func aPriorityOfANodeThatIsGone() throws {
        try withSession { connection in
            let record = try connection.make()
            var writer = BatchWriter(record)
            _ = try connection.commit(writer.set("a/x", .int(1)))
            _ = try connection.commit(writer.set("a/.priority", .int(7)))
            let before = writer.root
            _ = try connection.commit(writer.set("a/.priority", .null))
            let after = writer.root
            let plan = try undo(connection, record, 3, from: before, to: after)
            try plan.check(through: 3)
            _ = try connection.commit(writer.set("a/x", .null))
            for last: Int64 in [3, 4] {
                let error = #expect(throws: UndoError.self) { try plan.check(through: last) }
                guard case .overwritten(3, let later) = error else {
                    Issue.record("\(String(describing: error))")
                    return
                }
                // The node is read after the head.
                #expect(later.first.map(\.entry.seq) == [4])
            }
        }
    }

    @Test func ofManyLaterEntriesTheFirstAreNamed() throws {
        try withSession { connection in
            let record = try connection.make()
            var writer = BatchWriter(record)
            for number in 1...30 { _ = try connection.commit(writer.set("a/k\(number % 2)", .int(Int64(number)))) }
            let paths = PathSet([Path(splitting: "a/k1")])
            let later = try LaterWrites.find(connection, record.id, of: paths, after: 1, through: 30)
            #expect(later.count == 14 && later.first.map(\.entry.seq) == [3, 5, 7, 9, 11, 13, 15, 17, 19, 21])
            #expect(later.first.allSatisfy { $0.entry.changes.isEmpty })
        }
    }

    /// What is left of entries 2 to 7 after entry 1.
    private static let pairs: [([(Int64, Bool, Int64?)], [Int64])] = [
        ([(2, true, nil), (3, false, nil), (4, true, nil)], [2, 4]),
        ([(2, true, nil), (3, true, 2)], []),
        // The undo of an undo brings the first entry back.
        ([(2, true, nil), (3, true, 2), (4, true, 3)], [2]),
        ([(2, true, nil), (3, true, 2), (4, true, 3), (5, true, 2)], []),
        // An entry of before, and the entry itself.
        ([(2, true, 1)], [2]),
        ([(2, true, nil), (3, true, nil), (4, false, 2)], [3]),
    ]

    @Test(arguments: pairs.indices) func anEntryAndItsUndoAreLeftOut(_ index: Int) {
        let (entries, expected) = Self.pairs[index]
        var undone = UndoneEntries(after: 1)
        for (seq, touches, undoes) in entries { undone.add(seq, touches: touches, undoes: undoes) }
        #expect(undone.remaining == expected)
    }
}
