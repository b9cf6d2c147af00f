import Rules
import Runtime
import TestSupport
import Testing
import Tree

@testable import Engine

/// Checks requests that wait for a namespace and are answered by its rules alone.
@Suite struct RefusingTests {
    private let table = NamespaceTable()
    private let answers = MutexBox<[String]>([])
    private static let rules = RulesVersion(seq: 3, set: .denyAll)

    /// - Parameter isRefused: Nil for a request that needs the namespace.
    private func ask(_ caller: String, _ isRefused: Bool?) -> Bool {
        let refusal = isRefused.map { isRefused in
            EarlyRefusal { [answers] rules in
                guard isRefused else { return false }
                answers.withLock { $0.append("\(caller) refused by \(rules.seq)") }
                return true
            }
        }
        return table.request("n", unless: refusal) { [answers] result in
            let what = if case .success = result { "has it" } else { "failed" }
            answers.withLock { $0.append("\(caller) \(what)") }
        }
    }

    private func refuse() -> NamespaceTable.AfterRefusals {
        table.refuse(table.countRefusable("n"), of: "n", by: Self.rules)
    }

    @Test func noWaiterIsLeft() {
        #expect(table.countRefusable("n") == 0)
        #expect(ask("a", true) && !ask("b", true) && table.countRefusable("n") == 2)
        #expect(refuse() == .ends)
        #expect(answers.withLock { $0 } == ["a refused by 3", "b refused by 3"])
        // The state is as before the requests.
        #expect(table.countRefusable("n") == 0 && table.count == 0)
        #expect(ask("c", true), "it has to be loaded")
    }

    @Test func acceptedWaitersKeepWaiting() {
        #expect(ask("a", true) && !ask("b", false) && !ask("c", true))
        #expect(refuse() == .continues)
        #expect(answers.withLock { $0 } == ["a refused by 3", "c refused by 3"])
        #expect(!ask("d", true), "it is being loaded")
        table.loaded("n", .success(.test(name: "n")))
        #expect(answers.withLock { $0.suffix(2) } == ["b has it", "d has it"])
    }

    /// The tree is read anyway: no request is judged twice for it.
    @Test func whereOneNeedsTheNamespaceRulesAreNotAsked() {
        #expect(ask("a", true) && !ask("b", nil) && table.countRefusable("n") == 0)
        #expect(answers.withLock { $0 } == [])
        table.loaded("n", .failure(.stopping))
        #expect(answers.withLock { $0 } == ["a failed", "b failed"])
    }

    /// The rules were read before these requests arrived, and may be older than the rules that their clients have seen.
    @Test func laterReadersAreJudgedByNewerRules() {
        #expect(ask("a", true))
        let count = table.countRefusable("n")
        #expect(!ask("b", true))
        #expect(table.refuse(count, of: "n", by: Self.rules) == .judgesAgain)
        #expect(answers.withLock { $0 } == ["a refused by 3"])
        #expect(!ask("c", nil))
        #expect(table.countRefusable("n") == 0)
        table.loaded("n", .success(.test(name: "n")))
        #expect(answers.withLock { $0.suffix(2) } == ["b has it", "c has it"])
    }

    @Test func laterRequestsGetTheNamespace() {
        #expect(ask("a", true))
        let count = table.countRefusable("n")
        #expect(!ask("b", nil))
        #expect(table.refuse(count, of: "n", by: Self.rules) == .continues)
        table.loaded("n", .success(.test(name: "n")))
        #expect(answers.withLock { $0 } == ["a refused by 3", "b has it"])
    }
}
