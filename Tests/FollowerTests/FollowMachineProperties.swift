import ClientCore
import TestSupport
import Testing
import Tree
import Wire

@testable import Follower

/// Random writes, cuts, lost databases and splits: the namespace becomes equal to the upstream, and no message is applied in part,
/// twice or in another order.
struct FollowMachineProperties {
    @Test(arguments: UInt64(1)...60)
    func theNamespaceConverges(seed: UInt64) {
        var generator = TreeGenerator(seed: seed)
        var upstream = ModelUpstream(generator.tree(depth: 3))
        upstream.splitsData = generator.random.oneIn(3)
        var follower = ModelFollower(upstream, root: generator.random.oneIn(2) ? generator.tree(depth: 3) : .null)
        for _ in 0..<300 {
            switch generator.random.below(20) {
            case 0: follower.cut()
            case 1: follower.loseDatabase(committing: generator.random.below(4))
            case 2...8: follower.deliver()
            case 9...12: follower.commit(atMost: 1 + generator.random.below(3))
            default: write(&follower.upstream, &generator)
            }
        }
        follower.settle()
        #expect(follower.root.hash == follower.upstream.tree.hash)
        #expect(follower.machine.state == .following)
        #expect(follower.violations == 0)
        #expect(Set(follower.upstream.actions).isSubset(of: ["authenticate", "listen", "unlisten"]))
    }

    /// Without cuts, each message is one entry, in order, and only the first load is a difference.
    @Test(arguments: UInt64(1)...20)
    func eachMessageIsOneEntry(seed: UInt64) {
        var generator = TreeGenerator(seed: seed)
        var follower = ModelFollower(ModelUpstream(generator.tree(depth: 3)))
        follower.settle()
        let first = follower.log.count
        var states = [follower.root.hash]
        for _ in 0..<100 {
            let before = follower.upstream.outgoing.count
            write(&follower.upstream, &generator)
            if follower.upstream.outgoing.count > before { states.append(follower.upstream.tree.hash) }
            if generator.random.oneIn(3) { follower.deliver() }
            if generator.random.oneIn(7) { follower.loseDatabase(committing: generator.random.below(3)) }
            if generator.random.oneIn(3) { follower.commit(atMost: 2) }
        }
        follower.settle()
        #expect(follower.log.dropFirst(first).allSatisfy { $0.operation == .upstream })
        #expect(follower.log.count - first == states.count - 1)
        var root = Node.null
        for entry in follower.log.prefix(first) { root = root.replacing(ApplicationOrder.sorted(entry.changes)) }
        for (entry, state) in zip(follower.log.dropFirst(first), states.dropFirst()) {
            root = root.replacing(ApplicationOrder.sorted(entry.changes))
            #expect(root.hash == state)
        }
    }

    @Test(arguments: UInt64(1)...40)
    func partsThatAreTooLargeAreSplit(seed: UInt64) {
        var generator = TreeGenerator(seed: seed)
        var tree = Node.null
        for _ in 0..<60 { tree = tree.replacing(generator.path(maxDepth: 4), with: generator.leaf()) }
        if !tree.isBranch { tree = .null.replacing(Path(splitting: "a/b"), with: .bool(true)) }
        // The priority of a value whose children are listened to in ranges is not known.
        tree = tree.withPriority(.null)
        var upstream = ModelUpstream(tree)
        upstream.maxRows = 6
        var follower = ModelFollower(upstream)
        for _ in 0..<200 {
            switch generator.random.below(12) {
            case 0: follower.cut()
            case 1...5: follower.deliver()
            case 6...8: follower.commit(atMost: 3)
            default:
                let key = generator.key()
                let path = Path([key, generator.key()]).appending(generator.path(maxDepth: 1))
                follower.upstream.write(
                    at: path, [Change(path: path, value: generator.random.oneIn(3) ? .null : generator.bareLeaf())],
                    isUpdate: false)
            }
        }
        // A value that grew too large for its part is refused again after the next cut, and split.
        follower.cut()
        follower.settle()
        #expect(Self.withoutInnerPriorities(follower.root) == Self.withoutInnerPriorities(follower.upstream.tree))
        #expect(follower.machine.plan.parts.count > 1)
    }

    private static func withoutInnerPriorities(_ node: Node) -> Node {
        guard case .branch(let branch) = node else { return node }
        return Node(children: branch.children.map { ($0.key, withoutInnerPriorities($0.node)) })
    }

    private func write(_ upstream: inout ModelUpstream, _ generator: inout TreeGenerator) {
        if generator.random.oneIn(4) {
            let base = generator.path(maxDepth: 1)
            let changes = generator.changes(atMost: 4, below: base)
            upstream.write(at: base, changes, isUpdate: true)
        } else {
            var path = generator.writablePath(maxDepth: 3)
            // The upstream ignores the priority of nothing.
            if path.namesPriority, let parent = path.parent, upstream.tree[parent].isNull { path = parent }
            let value = path.namesPriority ? generator.priority() : generator.tree(depth: 3)
            upstream.write(at: path, [Change(path: path, value: value)], isUpdate: false)
        }
    }

    /// A follower that starts over its budget listens on the next day.
    @Test(arguments: [nil, 1_000] as [Int64?]) func aBudgetThatWasUsedUpAtTheStart(until time: Int64?) {
        var machine = FollowMachine(ModelFollower.settings, seed: 1)
        machine.exceedBudget("all was received", until: time, now: 0)
        #expect(machine.takeEffects().allSatisfy { if case .connection(.open) = $0 { false } else { true } })
        if time == nil { machine.start(now: 1_000) } else { machine.timePassed(now: 1_000) }
        let opened = machine.takeEffects().compactMap { effect -> ConnectionNumber? in
            if case .connection(.open(_, let number)) = effect { number } else { nil }
        }
        guard let number = opened.first else {
            Issue.record("no connection")
            return
        }
        machine.transport(.opened, of: number, now: 1_001)
        machine.transport(
            .received(ServerMessage.hello(timestamp: 1_700_000_000_000, host: "upstream.test", session: "s")),
            of: number,
            now: 1_002)
        machine.tokenFound(nil, now: 1_003)
        #expect(machine.wantsRoot, "the listen waits for the tree")
    }
}
