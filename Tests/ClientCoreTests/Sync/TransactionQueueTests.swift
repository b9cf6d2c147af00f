import Testing
import Tree
import Wire

@testable import ClientCore

@Suite struct TransactionQueueTests {
    /// A client's core without a server.
    final class Client {
        let tree = SyncTree()
        private var lastWrite: Int64 = 0
        private var lastRegistration: UInt64 = 0
        private(set) lazy var transactions = TransactionQueue(
            tree: tree, makeWriteID: { [unowned self] in makeWriteID() },
            makeRegistrationID: { [unowned self] in
                lastRegistration += 1
                return RegistrationID(rawValue: lastRegistration)
            }, serverTime: { 5000 })

        func makeWriteID() -> WriteID {
            lastWrite += 1
            return WriteID(rawValue: lastWrite)
        }

        func set(_ path: String, _ node: Node) -> TransactionEffects {
            let write = PendingWrite(id: makeWriteID(), path: Path(splitting: path), content: .overwrite(node))
            _ = tree.apply(write, estimate: write.content)
            return transactions.overridden(at: [write.path])
        }

        func serve(_ path: String, _ node: Node) -> TransactionEffects {
            _ = tree.applyServer(node, at: Path(splitting: path), tag: nil)
            return transactions.dataChanged(at: Path(splitting: path))
        }

        func begin(_ path: String, appliesLocally: Bool = true, _ body: @escaping TransactionBody)
            -> TransactionEffects
        {
            transactions.begin(at: Path(splitting: path), appliesLocally: appliesLocally, body: body).effects
        }

        func value(_ path: String) -> Node? { tree.localValue(at: Path(splitting: path)) }
    }

    private static func adding(_ number: Int64) -> TransactionBody {
        { node in
            if case .int(let value) = node { .int(value + number) } else { .int(number) }
        }
    }

    private static let stale = RequestOutcome.refused(RequestFailure(status: .dataStale))

    @Test func aTransactionRunsAtOnceAndIsSentWithTheHashOfWhatItFound() throws {
        let client = Client()
        let effects = client.begin("n", Self.adding(1))
        #expect(client.value("n") == .int(1))
        let put = try #require(effects.puts.first)
        #expect(put.hash.isEmpty && put.write.content == .overwrite(.int(1)))
        #expect(effects.sync.listens == [.start(QuerySpec(path: Path(splitting: "n")), tag: nil)])
        _ = client.serve("n", .int(1))
        let done = try #require(client.transactions.answered(put.write.id, .done))
        #expect(done.outcomes.map(\.result) == [.committed(.int(1))])
        #expect(done.sync.listens == [.stop(QuerySpec(path: Path(splitting: "n")), tag: nil)])
        #expect(client.transactions.answered(put.write.id, .done) == nil)
    }

    @Test func refusedBecauseOfOtherDataItRunsAgain() throws {
        let client = Client()
        var put = try #require(client.begin("n", Self.adding(1)).puts.first)
        for number in 1..<TransactionQueue.maxSends {
            // A sent transaction is not run again before its answer.
            #expect(client.serve("n", .int(Int64(number * 10))).puts.isEmpty)
            let again = try #require(client.transactions.answered(put.write.id, Self.stale))
            put = try #require(again.puts.first)
            #expect(put.hash == Node.int(Int64(number * 10)).hash)
            #expect(put.write.content == .overwrite(.int(Int64(number * 10 + 1))))
        }
        let end = try #require(client.transactions.answered(put.write.id, Self.stale))
        #expect(end.puts.isEmpty && end.outcomes.map(\.result) == [.failed(.tooManyRetries)])
        #expect(client.value("n") == nil)
    }

    @Test func laterOnesAtTheSamePathWaitAndSeeTheFirstResult() throws {
        let client = Client()
        let first = client.begin("n", Self.adding(1))
        #expect(client.begin("n", Self.adding(1)).puts.isEmpty)
        #expect(client.begin("n/deeper", { _ in .int(7) }).puts.isEmpty)
        #expect(client.value("n") == Node(children: [(Key("deeper"), .int(7))]))
        let put = try #require(first.puts.first)
        let next = try #require(client.transactions.answered(put.write.id, .done))
        let second = try #require(next.puts.first)
        #expect(next.puts.count == 1 && second.write.path == Path(splitting: "n"))
        #expect(second.hash == Node.int(1).hash)
        let end = try #require(client.transactions.answered(second.write.id, .done))
        #expect(end.outcomes.map(\.result) == [.committed(.int(2)), .committed(.int(7))])
    }

    @Test func unrelatedPathsDoNotWaitForEachOther() {
        let client = Client()
        #expect(client.begin("a", Self.adding(1)).puts.count == 1)
        #expect(client.begin("b", Self.adding(1)).puts.count == 1)
    }

    @Test func aPlainSetOvertakesThem() throws {
        let client = Client()
        let put = try #require(client.begin("n", Self.adding(1)).puts.first)
        _ = client.begin("n", Self.adding(1))
        // The waiting transaction is given up at once, the sent one when the server refuses it.
        #expect(client.set("n", .int(100)).outcomes.map(\.result) == [.failed(.overridden)])
        #expect(client.value("n") == .int(100))
        let end = try #require(client.transactions.answered(put.write.id, Self.stale))
        #expect(end.outcomes.map(\.result) == [.failed(.overridden)] && end.puts.isEmpty)
        #expect(client.value("n") == .int(100))
    }

    @Test func otherwiseRefusedOrLostItIsGivenUp() throws {
        let client = Client()
        let refusal = RequestFailure(status: .permissionDenied)
        var put = try #require(client.begin("n", Self.adding(1)).puts.first)
        var end = try #require(client.transactions.answered(put.write.id, .refused(refusal)))
        #expect(end.outcomes.map(\.result) == [.failed(.refused(refusal))])
        put = try #require(client.begin("n", Self.adding(1)).puts.first)
        end = try #require(client.transactions.answered(put.write.id, .lost))
        #expect(end.outcomes.map(\.result) == [.failed(.connectionLost)])
        #expect(client.value("n") == nil)
    }

    @Test func theBodyMayLeaveEverythingAsItIs() throws {
        let client = Client()
        let effects = client.begin("n", { _ in nil })
        #expect(effects.puts.isEmpty && effects.outcomes.map(\.result) == [.abandoned(.null)])
        // A rerun may be abandoned, too.
        let put = try #require(client.begin("n", { $0.isNull ? .int(1) : nil }).puts.first)
        _ = client.serve("n", .int(9))
        let end = try #require(client.transactions.answered(put.write.id, Self.stale))
        #expect(end.outcomes.map(\.result) == [.abandoned(.int(9))])
    }

    @Test func notAppliedLocallyItIsSeenByOtherTransactionsOnly() throws {
        let client = Client()
        let listener = Registration(
            id: RegistrationID(rawValue: 999), spec: QuerySpec(path: Path(splitting: "n")), kinds: .value)
        _ = client.tree.add(listener)
        _ = client.serve("n", .int(1))
        let first = client.begin("n", appliesLocally: false, Self.adding(1))
        #expect(first.sync.events.isEmpty && client.value("n") == .int(1))
        let second = client.begin("n", appliesLocally: false, Self.adding(1))
        #expect(second.sync.events.isEmpty)
        let put = try #require(first.puts.first)
        _ = client.serve("n", .int(2))
        let next = try #require(client.transactions.answered(put.write.id, .done))
        #expect(next.puts.first?.write.content == .overwrite(.int(3)))
    }

    @Test func otherDataRunsWhatWaits() throws {
        let client = Client()
        let put = try #require(client.begin("n", Self.adding(1)).puts.first)
        _ = client.begin("n", Self.adding(10))
        _ = client.serve("n", .int(1))
        _ = client.transactions.answered(put.write.id, .done)
        #expect(client.value("n") == .int(11))
    }

    @Test func serverValuesAreEstimatedAndSentAsTheyAre() throws {
        let client = Client()
        let stamp = Node.serverValue(ServerValue(.timestamp))
        let put = try #require(client.begin("n", { _ in stamp }).puts.first)
        #expect(put.write.content == .overwrite(stamp) && client.value("n") == .int(5000))
    }

    @Test func purgedTheyAreGivenUp() {
        let client = Client()
        _ = client.begin("a", Self.adding(1))
        _ = client.begin("a", Self.adding(1))
        #expect(client.transactions.purge().outcomes.map(\.result) == [.failed(.purged), .failed(.purged)])
        #expect(client.value("a") == nil)
    }
}
