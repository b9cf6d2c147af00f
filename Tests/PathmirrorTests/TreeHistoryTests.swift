import Feeds
import LogStore
import Rules
import Runtime
import TestSupport
import Testing
import Tree

@testable import Engine
@testable import pathmirror

/// Checks the trees after a namespace's last entries, with which feeds begin.
@Suite struct TreeHistoryTests {
    private static let rules = RulesVersion(seq: 0, set: .allowAll)

    private func snapshot(_ seq: Int64) -> Snapshot {
        Snapshot(seq: seq, root: .int(seq), rules: Self.rules)
    }

    private func steps(_ seqs: ClosedRange<Int64>) -> [Step] {
        seqs.map { seq in
            let entry = Entry(seq: seq, committedAt: 0, operation: .set, path: .root, changes: [])
            return Step(entry: entry, before: .int(seq - 1), after: .int(seq))
        }
    }

    private func seq(_ history: TreeHistory, at seq: Int64) -> Int64? {
        guard let tree = history.tree(at: seq) else { return nil }
        #expect(tree.root == .int(tree.seq))
        return tree.seq
    }

    // MARK: Steps

    private func batch(_ seq: Int64) -> [UInt8] { Array("batch \(seq)".utf8) }

    private func stamped(_ seqs: ClosedRange<Int64>) -> [Step] {
        steps(seqs).map {
            Step(entry: $0.entry, before: $0.before, after: $0.after, batch: batch($0.entry.seq), committedAt: 7)
        }
    }

    private func seqs(_ history: TreeHistory, after seq: Int64, _ batch: [UInt8]?, most: Int = 100) -> [Int64]? {
        history.steps(after: LogPosition(seq: seq, batch: batch), most: most).map { steps in
            for step in steps {
                #expect(step.before == .int(step.entry.seq - 1) && step.after == .int(step.entry.seq))
                #expect(step.entry.committedAt == 7 && step.batch == self.batch(step.entry.seq))
            }
            return steps.map(\.entry.seq)
        }
    }

    @Test func stepsFollowAPositionOfTheSameHistory() {
        let history = TreeHistory()
        history.begin(with: snapshot(5))
        history.changed(stamped(6...9))
        #expect(seqs(history, after: 6, batch(6)) == [7, 8, 9])
        #expect(seqs(history, after: 6, batch(6), most: 2) == [7, 8])
        #expect(seqs(history, after: 9, batch(9)) == [])
        // Another batch at that seq is another history. The initial tree has no batch.
        #expect(seqs(history, after: 6, batch(7)) == nil)
        #expect(seqs(history, after: 6, nil) == nil)
        #expect(seqs(history, after: 5, batch(5)) == nil)
        #expect(seqs(history, after: 10, batch(10)) == nil)
        history.reset(to: snapshot(20))
        #expect(seqs(history, after: 9, batch(9)) == nil)
    }

    /// Rules are no step of the tree. The full changes of some entries are only in the log. Both are read there.
    @Test func stepsEndWhereOnlyTheLogKnows() {
        let history = TreeHistory()
        history.changed(stamped(6...7))
        history.changed(stamped(9...10))
        #expect(seqs(history, after: 6, batch(6)) == [7])
        #expect(seqs(history, after: 7, batch(7)) == nil)
        #expect(seqs(history, after: 9, batch(9)) == [10])
        history.changed(steps(11...11))
        #expect(seqs(history, after: 9, batch(9)) == [10])
        #expect(seqs(history, after: 10, batch(10)) == nil)
    }

    /// The history keeps few trees and many entries: a lagging reader builds the trees from its own.
    @Test func olderStepsHaveNoTrees() throws {
        let history = TreeHistory()
        history.begin(with: snapshot(0))
        for first in stride(from: Int64(1), through: 9_901, by: 100) { history.changed(stamped(first...first + 99)) }
        let steps = try #require(history.steps(after: LogPosition(seq: 1, batch: batch(1)), most: 9_000))
        #expect(steps.map(\.entry.seq) == Array(2...9_001))
        #expect(steps.first?.before == nil && steps.first?.after == nil)
        #expect(steps.last?.before == .int(9_000) && steps.last?.after == .int(9_001))
        let first = try #require(steps.firstIndex { $0.after != nil })
        #expect(steps[first...].allSatisfy { $0.after == .int($0.entry.seq) })
        #expect(steps[..<first].allSatisfy { $0.after == nil })
        #expect(10_000 - steps[first].entry.seq < 4_200)
    }

    @Test func entriesAreFewEnough() {
        let history = TreeHistory()
        history.begin(with: snapshot(0))
        for first in stride(from: Int64(1), through: 199_001, by: 1_000) {
            history.changed(stamped(first...first + 999))
        }
        #expect(seqs(history, after: 199_990, batch(199_990))?.count == 10)
        #expect(history.steps(after: LogPosition(seq: 150_000, batch: batch(150_000)), most: 5)?.count == 5)
        #expect(history.steps(after: LogPosition(seq: 100_000, batch: batch(100_000)), most: 5) == nil)
    }

    @Test func watchersAreNotified() {
        let count = MutexBox(0)
        let history = TreeHistory { count.withLock { $0 += 1 } }
        history.changed(stamped(1...3))
        history.reset(to: snapshot(8))
        #expect(count.withLock { $0 } == 2)
    }

    // MARK: Trees

    @Test func theNewestThatIsNotNewer() {
        let history = TreeHistory()
        #expect(seq(history, at: 5) == nil)
        history.begin(with: snapshot(5))
        history.changed(steps(6...8))
        #expect(seq(history, at: 4) == nil)
        #expect([5, 7, 8, 100].map { seq(history, at: $0) } == [5, 7, 8, 8])
    }

    /// A change may arrive before the tree at the start of the subscription.
    @Test func changesThatComeFirst() {
        let history = TreeHistory()
        history.changed(steps(6...7))
        history.begin(with: snapshot(5))
        #expect([4, 5, 6, 7].map { seq(history, at: $0) } == [nil, 5, 6, 7])
        let late = TreeHistory()
        late.changed(steps(6...7))
        late.begin(with: snapshot(7))
        #expect([5, 6, 7].map { seq(late, at: $0) } == [nil, 6, 7])
    }

    /// The number of kept trees is reduced if they contain long overwritten texts.
    @Test func theyAreSmallTogether() {
        let history = TreeHistory()
        for seq in Int64(1)...80 {
            let text = Node.string(String(repeating: "x", count: 1 << 20))
            let entry = Entry(
                seq: seq, committedAt: 0, operation: .set, path: .root, changes: [Change(path: .root, value: text)])
            history.changed([Step(entry: entry, before: .null, after: .int(seq))])
        }
        #expect(seq(history, at: 80) == 80)
        #expect(seq(history, at: 20) == 20)
        #expect(seq(history, at: 6) == nil)
    }

    @Test func thereAreFew() {
        let history = TreeHistory()
        history.begin(with: snapshot(0))
        for first in stride(from: Int64(1), through: 19_901, by: 100) { history.changed(steps(first...first + 99)) }
        #expect(seq(history, at: 20_000) == 20_000)
        #expect(seq(history, at: 16_000) == 16_000)
        #expect(seq(history, at: 15_000) == nil)
    }

    @Test func anotherHistory() {
        let history = TreeHistory()
        history.begin(with: snapshot(0))
        history.changed(steps(1...10))
        history.reset(to: snapshot(4))
        #expect([3, 4, 10].map { seq(history, at: $0) } == [nil, 4, 4])
        history.changed(steps(5...5))
        #expect(seq(history, at: 10) == 5)
    }

    @Test func theEnd() {
        let history = TreeHistory()
        history.begin(with: snapshot(3))
        #expect(!history.isOver)
        history.ended()
        #expect(history.isOver && seq(history, at: 3) == nil)
    }

    // MARK: Of an engine

    @Test func anEnginesTrees() throws {
        try withEngines { _, engines in
            let namespace = try engines[0].namespace()
            let (trees, id) = (RecentTrees(engines[0].engine, TreeBudget(bytes: 1 << 30)), namespace.id)
            trees.watch("test", id) {}
            #expect(eventually { !trees.isComing(id) })
            #expect(namespace.write(.set("/a", .int(1)))?.committedSeq == 1)
            let first = try #require(trees.tree(of: id, at: 1))
            #expect(first.seq == 1 && first.root.child(Key("a")) == .int(1))
            for number in 2...5 as ClosedRange<Int64> {
                #expect(namespace.write(.set("/a", .int(number)))?.committedSeq == number)
            }
            #expect(namespace.waitFor(5))
            #expect(eventually { trees.tree(of: id, at: 5)?.seq == 5 })
            for seq in 1...5 as ClosedRange<Int64> {
                #expect(trees.tree(of: id, at: seq)?.root.child(Key("a")) == .int(seq))
            }
            // A forgotten namespace begins again, with its present tree.
            trees.forget(id)
            trees.forget(id)
            trees.forget(id + 1)
            #expect(trees.tree(of: id, at: 5) == nil && !trees.isComing(id))
            trees.watch("test", id) {}
            #expect(eventually { !trees.isComing(id) })
            #expect(trees.tree(of: id, at: 5)?.seq == 5)
            #expect(trees.tree(of: id, at: 4) == nil)
            // Another namespace has the name.
            trees.watch("test", id + 1) {}
            #expect(eventually { !trees.isComing(id + 1) })
            #expect(trees.tree(of: id + 1, at: 5) == nil && trees.tree(of: id, at: 5)?.seq == 5)
        }
    }

    /// Checks that a watcher is woken after a load, whether it succeeded or not.
    @Test func watchersAreWokenWhenANamespaceHasBeenRead() throws {
        try withEngines { _, engines in
            engines[0].stop()
            let trees = RecentTrees(engines[0].engine, TreeBudget(bytes: 1 << 30))
            let woken = MutexBox(0)
            trees.watch("test", 1) { woken.withLock { $0 += 1 } }
            // The engine stops, so the load fails.
            #expect(eventually { woken.withLock { $0 } == 1 })
            #expect(!trees.isComing(1) && trees.tree(of: 1, at: 1) == nil)
        }
        try withEngines { _, engines in
            let trees = RecentTrees(engines[0].engine, TreeBudget(bytes: 1 << 30))
            let woken = MutexBox(0)
            let namespace = try engines[0].namespace("other")
            for _ in 0..<50 {
                // Forgotten before the load has ended, or at the same time: no listener remains.
                trees.watch("other", namespace.id) { woken.withLock { $0 += 1 } }
                trees.forget(namespace.id)
            }
            #expect(eventually { namespace.isUnused })
            trees.watch("other", namespace.id) { woken.withLock { $0 += 1 } }
            #expect(eventually { trees.tree(of: namespace.id, at: 0) != nil })
            let before = woken.withLock { $0 }
            #expect(namespace.write(.set("/a", .int(1)))?.committedSeq == 1)
            #expect(eventually { woken.withLock { $0 } > before })
        }
    }

    /// Checks that a failed load is retried.
    @Test func whatCouldNotBeHadComesLater() throws {
        try withEngines(1) { settings, _ in
            settings.createsNamespaces = false
        } _: { url, engines in
            let trees = RecentTrees(engines[0].engine, TreeBudget(bytes: 1 << 30))
            let connection = try LogConnection(url)
            defer { connection.close() }
            let id = try #require(try connection.namespace(named: "other", creating: true)).id + 1
            trees.watch("late", id) {}
            #expect(eventually { !trees.isComing(id) })
            #expect(trees.tree(of: id, at: 0) == nil)
            #expect(try connection.namespace(named: "late", creating: true)?.id == id)
            #expect(eventually { trees.tree(of: id, at: 0) != nil })
        }
    }
}
