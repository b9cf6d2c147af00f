import LogStore
import TestSupport
import Testing
import Tree

/// Checks that the log can be searched by a batch's id to determine whether the batch was committed before its
/// connection was lost, and that the answer does not change.
@Suite struct ContractLostTests {
    private func isLost(_ body: () throws -> Void) -> Bool {
        do {
            try body()
            return false
        } catch {
            return (error as? LogStoreError)?.isConnectionLost == true
        }
    }

    @Test(arguments: ContractStore.all, [1, 40])
    func lostBeforeItCame(_ store: ContractStore, leaves: Int) throws {
        try store.with { opened in
            let one = try opened.connect()
            let cut = try opened.connectCut(.beforeBatchArrives)
            defer {
                one.close()
                cut.connection.close()
            }
            var writer = try one.writer()
            let batch = writer.batch([(0..<leaves).map { Change(path: Path(splitting: "k\($0)"), value: .int(1)) }])
            #expect(isLost { _ = try cut.connection.commit(batch) })
            #expect(try one.findBatch(batch) == false)
            #expect(try one.head(writer.namespace)?.seq == 0)
            // The same batch can be sent again.
            #expect(try one.commit(batch) == .committed)
            #expect(try one.findBatch(batch))
            #expect(try one.tree(writer.namespace).root == writer.root)
            #expect(try one.verify(writer.namespace) == [])
        }
    }

    @Test(arguments: ContractStore.all)
    func lostBeforeTheAnswer(_ store: ContractStore) throws {
        try store.with { opened in
            let one = try opened.connect()
            let cut = try opened.connectCut(.beforeCommitAnswer)
            defer {
                one.close()
                cut.connection.close()
            }
            var writer = try one.writer()
            let batch = writer.set("a", .int(1))
            #expect(isLost { _ = try cut.connection.commit(batch) })
            #expect(try one.findBatch(batch), "it was committed all the same")
            #expect(try one.commit(batch) == .headMoved, "and can't be committed twice")
            #expect(try one.entries(writer.namespace).map(\.batchID) == [batch.id])
            #expect(try one.verify(writer.namespace) == [])
        }
    }

    /// Checks that a batch that reaches the store long after its sender lost the connection is written only if no other
    /// batch was first.
    @Test(arguments: ContractStore.all, [false, true])
    func lostAndLate(_ store: ContractStore, othersAreFirst: Bool) throws {
        try store.with { opened in
            let one = try opened.connect()
            let cut = try opened.connectCut(.batchArrivesLate)
            defer {
                one.close()
                cut.connection.close()
            }
            var writer = try one.writer()
            var late = writer
            let batch = late.set("late", .int(1))
            #expect(isLost { _ = try cut.connection.commit(batch) })
            #expect(try one.findBatch(batch) == false)
            if othersAreFirst { #expect(try one.commit(writer.set("first", .int(1))) == .committed) }
            cut.release()
            #expect(try one.findBatch(batch) == !othersAreFirst)
            #expect(try one.tree(writer.namespace).root == (othersAreFirst ? writer : late).root)
            #expect(try one.entries(writer.namespace).count == 1)
            #expect(try one.verify(writer.namespace) == [])
        }
    }

    @Test(arguments: ContractStore.all)
    func anotherBatchAtTheSameSeqIsDifferent(_ store: ContractStore) throws {
        try store.with { opened in
            let one = try opened.connect()
            defer { one.close() }
            var writer = try one.writer()
            var twin = writer
            let (batch, other) = (writer.set("a", .int(1)), twin.set("a", .int(1)))
            #expect(try one.findBatch(batch) == false, "nothing is there")
            #expect(try one.commit(batch) == .committed)
            #expect(try one.findBatch(batch))
            #expect(try one.findBatch(other) == false)
            // The batch is still found after later writes.
            for number in 0..<30 { #expect(try one.commit(writer.set("b", .int(Int64(number)))) == .committed) }
            #expect(try one.findBatch(batch))
        }
    }
}
