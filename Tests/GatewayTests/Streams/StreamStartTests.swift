import Engine
import Rules
import Testing
import Tree

@testable import Gateway

/// Tests of where a stream starts, given the last event that its client reports.
@Suite struct StreamStartTests {
    private func group(_ namespace: TestNamespace, _ path: String = "a") -> ListenerGroup {
        ListenerGroup(
            ListenerKey(
                namespace: NamespaceKey(id: 1), path: Path(splitting: path), query: nil,
                encoding: .events(.plain, withIDs: true)),
            namespace.live)
    }

    private func id(_ namespace: TestNamespace, _ seq: Int64, _ path: String = "a") -> String {
        group(namespace, path).ids(namespace.snapshot.rules).id(seq, TestNamespace.batch(seq))
    }

    private func start(_ namespace: TestNamespace, _ id: String?, isAdmin: Bool = false) -> StreamStart {
        StreamStart(id, readsEverything: isAdmin, group(namespace), namespace.snapshot)
    }

    private func after(_ seq: Int64) -> StreamStart {
        // Ids before the first entry contain no part of a batch.
        let batch = seq == 0 ? Array(repeating: 0, count: 6) : TestNamespace.batch(seq)
        return .after(EventIDs.Seen(seq: seq, mark: Array(batch.prefix(6))))
    }

    @Test func withoutAnIDFromTheBeginning() {
        let namespace = TestNamespace(seq: 10)
        for text in [nil, "", "x", "5", "5-", "-5", "5-AAAA", "99999999999999999999"] as [String?] {
            #expect(start(namespace, text) == .fresh, "\(text ?? "nil")")
        }
    }

    @Test func afterTheSeenEvents() {
        let namespace = TestNamespace(seq: 10)
        for seq in [0, 1, 9, 10] as [Int64] { #expect(start(namespace, id(namespace, seq)) == after(seq)) }
    }

    @Test func clientsAheadAreWaitedFor() {
        let namespace = TestNamespace(seq: 10)
        #expect(start(namespace, id(namespace, 11)) == .waiting(11))
        #expect(start(namespace, id(namespace, 500)) == .waiting(500))
    }

    /// Checks that a bare seq, as in ids of the first version, gives no access to older events, but that a client that
    /// has seen an entry never receives an older value.
    @Test func bareSeqsOfTheFirstVersionAreAwaitedAndStartAgain() {
        let namespace = TestNamespace(seq: 10)
        #expect(start(namespace, "11") == .waiting(11))
        #expect(start(namespace, "11-AAAA") == .fresh)
        for seq in 0...10 { #expect(start(namespace, "\(seq)") == .fresh) }
    }

    @Test func idsOfOtherPathsSayNothing() {
        let namespace = TestNamespace(seq: 10)
        #expect(start(namespace, id(namespace, 5, "b")) == .fresh)
        #expect(start(namespace, id(namespace, 5, "a/b")) == .fresh)
    }

    /// Checks that administrators may name any seq without a signature: they could read everything at that time, too.
    @Test func administratorsNameAnySeq() {
        let namespace = TestNamespace(seq: 10)
        #expect(start(namespace, "5", isAdmin: true) == .after(EventIDs.Seen(seq: 5, mark: nil)))
        #expect(start(namespace, "5-x", isAdmin: true) == .after(EventIDs.Seen(seq: 5, mark: nil)))
        #expect(start(namespace, "12", isAdmin: true) == .waiting(12))
        #expect(start(namespace, "x", isAdmin: true) == .fresh)
        #expect(start(namespace, id(namespace, 5), isAdmin: true) == after(5), "a seal says more")
    }

    /// Checks that a stream starts with a fresh value under rules that depend on data: writes since then may not have
    /// been readable for the client.
    @Test func unsteadyRulesStartAgain() throws {
        let rules = try RuleSet(json: Array("{\"rules\":{\".read\":\"root.child('o').val() == true\"}}".utf8))
        let namespace = TestNamespace(seq: 10, rules: rules)
        #expect(start(namespace, id(namespace, 5)) == .fresh)
        #expect(start(namespace, id(namespace, 10)) == after(10), "nothing was written meanwhile")
        #expect(start(namespace, id(namespace, 5), isAdmin: true) == after(5))
    }

    @Test func rulesThatChangedMeanwhileStartAgain() throws {
        let namespace = TestNamespace(seq: 10)
        let old = id(namespace, 10)
        try namespace.adopt("{\"rules\":{\".read\":true}}")
        #expect(start(namespace, old) == .fresh)
        #expect(start(namespace, id(namespace, 11)) == after(11))
        #expect(start(namespace, id(namespace, 10)) == .fresh, "rules of after the event")
    }

    /// Checks that an id that another gateway issued under rules that have not arrived here makes the stream wait.
    @Test func rulesThatAreNotHereYet() throws {
        let (here, there) = (TestNamespace(seq: 10), TestNamespace(seq: 10))
        try there.adopt("{\"rules\":{\".read\":true}}")
        there.commit((path: "a", value: .int(1)))
        #expect(start(here, id(there, 12)) == .waiting(12))
    }
}
