import Engine
import Rules
import Runtime
import TestSupport
import Testing
import Tree

@testable import Gateway
@testable import HTTPServer

/// Tests of the pass that delivers a group's events to its listeners on a loop.
@Suite struct ListenerTableTests {
    /// A table on a loop, with listeners at `/a` of a namespace that the test changes.
    private final class Bench {
        let test: TestLoop
        let namespace: TestNamespace
        let table: LoopBound<ListenerTable<ScriptedListener>>
        let group: ListenerGroup
        let delivered = Counter()
        private var lastID: UInt64 = 0

        init(_ test: TestLoop, rules: RuleSet = .allowAll) throws {
            self.test = test
            namespace = TestNamespace(rules: rules)
            group = ListenerGroup(
                ListenerKey(
                    namespace: NamespaceKey(id: 1), path: Path(splitting: "a"), query: nil, encoding: .realtime),
                namespace.live)
            let delivered = delivered
            table = LoopBound(try test.on { ListenerTable(test.loop, bufferBytes: 1_000, delivered: delivered) })
        }

        var groupID: ObjectIdentifier { ObjectIdentifier(group) }

        func add(_ reader: AuthContext = .unauthenticated) throws -> LoopBound<ScriptedListener> {
            lastID += 1
            let listener = ScriptedListener(lastID, group, reader)
            let table = table
            try test.on { table.content.add(listener) }
            return LoopBound(listener)
        }

        func notify(_ news: GroupMessage) throws {
            let (table, id) = (table, groupID)
            try test.on { table.content.hear(news, from: id) }
            try test.settle()
        }

        func events(_ seqs: Int64...) throws -> GroupMessage {
            let events = seqs.map { EncodedEvents.Event(seq: $0, bytes: SharedBytes([UInt8(truncatingIfNeeded: $0)])) }
            return .events(try #require(EncodedEvents(events)))
        }

        func take(_ listener: LoopBound<ScriptedListener>) throws -> [ScriptedListener.Call] {
            try test.on { listener.content.take() }
        }
    }

    private static func rules(_ read: String) throws -> RuleSet {
        try RuleSet(json: Array("{\"rules\":{\".read\":\"\(read)\",\".write\":true}}".utf8))
    }

    private static func user(_ uid: String) -> AuthContext {
        AuthContext(auth: Node(children: [(Key("uid"), .string(uid))]))
    }

    // MARK: Members

    @Test func membersAreFoundAndForgotten() throws {
        try withLoop { test in
            let bench = try Bench(test)
            let (one, two) = (try bench.add(), try bench.add())
            try test.on {
                let table = bench.table.content
                #expect(table.groupIDs == [bench.groupID])
                #expect(table.find(1, in: bench.groupID) === one.content)
                #expect(table.find(3, in: bench.groupID) == nil)
                #expect(table.remove(1, from: bench.groupID) === one.content)
                #expect(table.remove(1, from: bench.groupID) == nil)
                #expect(table.all.map(\.id) == [2])
                #expect(table.remove(2, from: bench.groupID) === two.content)
                #expect(table.groupIDs.isEmpty)
            }
        }
    }

    @Test func newsOfGroupsWithoutMembersDoNothing() throws {
        try withLoop { test in
            let bench = try Bench(test)
            for news in [try bench.events(1), .reset(bench.namespace.snapshot), .newRules, .ended] {
                try bench.notify(news)
            }
            #expect(bench.delivered.current == 0)
        }
    }

    // MARK: Events

    /// Checks that the pass prepares its output once, and that all members receive it.
    @Test func oneDeliveryIsSharedByAll() throws {
        try withLoop { test in
            let bench = try Bench(test)
            let members = try (0..<5).map { _ in try bench.add() }
            try bench.notify(try bench.events(1, 2, 3))
            let calls = try members.map { try bench.take($0) }
            let uses = calls.compactMap { calls -> Int? in
                guard case .events([1, 2, 3], let shared) = calls.first, calls.count == 1 else { return nil }
                return shared
            }
            #expect(uses.sorted() == [1, 2, 3, 4, 5])
            #expect(bench.delivered.current == 15)
        }
    }

    @Test func othersGroupsHearNothing() throws {
        try withLoop { test in
            let bench = try Bench(test)
            let member = try bench.add()
            let other = ListenerGroup(bench.group.key, bench.namespace.live)
            let news = try bench.events(1)
            try test.on { bench.table.content.hear(news, from: ObjectIdentifier(other)) }
            #expect(try bench.take(member) == [])
        }
    }

    // MARK: Readers

    @Test func unauthorizedReadersReceiveNothing() throws {
        try withLoop { test in
            let bench = try Bench(test, rules: try Self.rules("auth.uid == 'a'"))
            let readers = [Self.user("a"), Self.user("b"), .unauthenticated, .admin]
            let members = try readers.map { try bench.add($0) }
            try bench.notify(try bench.events(1))
            let calls = try members.map { try bench.take($0) }
            #expect(calls[1] == [.shutOut] && calls[2] == [.shutOut])
            for position in [0, 3] {
                guard case .events([1], _) = calls[position].first else {
                    Issue.record("\(position): \(calls[position])")
                    continue
                }
            }
        }
    }

    /// Checks that a reader that was admitted by rules that depend on neither data nor time remains admitted until the
    /// rules or the login change.
    @Test func steadyRulesAreAskedOnce() throws {
        try withLoop { test in
            let bench = try Bench(test, rules: try Self.rules("auth.uid == 'a'"))
            let member = try bench.add(Self.user("a"))
            try bench.notify(try bench.events(1))
            #expect(try bench.take(member).count == 1)
            try test.on {
                #expect(member.content.admission.rules === bench.namespace.snapshot.rules)
                // The same login cannot lose its permission under these rules, so the check does not read the changed
                // reader.
                member.content.reader = Self.user("b")
            }
            try bench.notify(try bench.events(2))
            guard case .events([2], _) = try bench.take(member).first else {
                Issue.record("asked again")
                return
            }
            try test.on { member.content.loginNumber += 1 }
            try bench.notify(try bench.events(3))
            #expect(try bench.take(member) == [.shutOut])
        }
    }

    @Test func rulesThatLookAtDataAreAskedEachTime() throws {
        try withLoop { test in
            let bench = try Bench(test, rules: try Self.rules("root.child('open').val() == true"))
            bench.namespace.commit((path: "open", value: .bool(true)))
            let member = try bench.add()
            try bench.notify(try bench.events(1))
            #expect(try bench.take(member).count == 1)
            bench.namespace.commit((path: "open", value: .bool(false)))
            try bench.notify(try bench.events(2))
            #expect(try bench.take(member) == [.shutOut])
        }
    }

    @Test func newRulesShutReadersOut() throws {
        try withLoop { test in
            let bench = try Bench(test)
            let (owner, other, admin) = (try bench.add(Self.user("a")), try bench.add(), try bench.add(.admin))
            try bench.notify(.newRules)
            for member in [owner, other, admin] { #expect(try bench.take(member) == []) }
            try bench.namespace.adopt("{\"rules\":{\".read\":\"auth.uid == 'a'\"}}")
            try bench.notify(.newRules)
            #expect(try bench.take(owner) == [])
            #expect(try bench.take(other) == [.shutOut])
            #expect(try bench.take(admin) == [])
        }
    }

    /// Checks that the rules are evaluated for each member once, even if one time slice of the loop is not enough.
    @Test func manyReadersAreJudgedInSlices() throws {
        try withLoop { test in
            let bench = try Bench(test, rules: try Self.rules("root.child('x').val() == true"))
            let members = try (0..<40).map { _ in try bench.add() }
            try test.on {
                for member in members {
                    member.content.onCall = {
                        let end = ContinuousClock.now + .milliseconds(1)
                        while ContinuousClock.now < end {}
                    }
                }
            }
            let between = LoopBound(0)
            try test.on {
                bench.table.content.recheck(bench.groupID)
                between.content = members.count { !$0.content.calls.isEmpty }
            }
            #expect(try eventually { try test.on { members.allSatisfy { $0.content.calls == [.shutOut] } } })
            #expect(between.content > 0 && between.content < members.count)
        }
    }

    /// Checks that a member that is removed while other members are checked is not used again.
    @Test func membersThatGoMeanwhileAreLeftAlone() throws {
        try withLoop { test in
            let bench = try Bench(test, rules: try Self.rules("root.child('x').val() == true"))
            let members = try (0..<20).map { _ in try bench.add() }
            try test.on {
                for member in members {
                    member.content.onCall = {
                        // The first member that is notified removes all other members.
                        for other in members where other.content !== member.content {
                            bench.table.content.remove(other.content.id, from: bench.groupID)
                        }
                    }
                }
                bench.table.content.recheck(bench.groupID)
            }
            try test.settle()
            let calls = try members.map { try bench.take($0) }
            #expect(calls.count { !$0.isEmpty } == 1)
        }
    }

    // MARK: Restart and end

    @Test func resetsAndEndsReachEveryMember() throws {
        try withLoop { test in
            let bench = try Bench(test)
            let members = try (0..<3).map { _ in try bench.add() }
            bench.namespace.reset(to: .int(1), seq: 9)
            try bench.notify(.reset(bench.namespace.snapshot))
            try bench.notify(.ended)
            for member in members { #expect(try bench.take(member) == [.restart(9), .ended]) }
        }
    }
}
