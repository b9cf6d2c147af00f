import Testing
import Tree

/// Compares the resolution of server values with a model that works leaf by leaf.
struct ServerValueProperties {
    /// Returns a value that contains server values.
    private func template(_ generator: inout TreeGenerator, depth: Int) -> Node {
        if depth == 0 || generator.random.oneIn(3) {
            switch generator.random.below(5) {
            case 0: return .serverValue(ServerValue(.timestamp))
            case 1: return .serverValue(ServerValue(.increment(.int(Int64(generator.random.below(9)) - 4))))
            case 2: return .serverValue(ServerValue(.increment(.double(0.5)))).withPriority(generator.priority())
            case 3: return generator.bareLeaf().withPriority(.serverValue(ServerValue(.timestamp)))
            default: return generator.leaf()
            }
        }
        let children = (0..<generator.random.below(5)).map { _ in
            (generator.key(), template(&generator, depth: depth - 1))
        }
        return Node(children: children)
    }

    private func leaf(_ value: Node, _ existing: Node) -> Node {
        guard case .serverValue(let server) = value else { return value }
        guard case .increment(let delta) = server.kind else { return .int(777) }
        switch (existing, delta) {
        case (.int(let first), .int(let second)):
            let (sum, overflow) = first.addingReportingOverflow(second)
            return overflow ? .double(Double(first) + Double(second)) : .int(sum)
        case (.int(let first), .double(let second)): return Node(number: Double(first) + second)
        case (.double(let first), .int(let second)): return Node(number: first + Double(second))
        case (.double(let first), .double(let second)): return Node(number: first + second)
        default: return delta
        }
    }

    private func resolved(_ value: Node, _ existing: Node) -> Node {
        guard case .branch(let branch) = value else {
            return leaf(value.withoutPriority, existing.withoutPriority)
                .withPriority(leaf(value.priority, existing.priority))
        }
        return Node(
            children: branch.children.map { ($0.key, resolved($0.node, existing.child($0.key))) },
            priority: branch.priority)
    }

    @Test(arguments: 0..<80 as Range<UInt64>)
    func `each path counts from what is there`(seed: UInt64) {
        var generator = TreeGenerator(seed: seed)
        for _ in 0..<20 {
            let value = template(&generator, depth: 3)
            let existing =
                generator.random.oneIn(3) ? value.resolved(existing: .null, timestamp: 5) : generator.tree(depth: 3)
            let result = value.resolved(existing: existing, timestamp: 777)
            #expect(result == resolved(value, existing), "seed \(seed)")
            // No server value is left, so resolving again changes nothing.
            #expect(result.resolved(existing: existing, timestamp: 1) == result)
            #expect(!result.hasIncrement)
        }
    }

    @Test func `increments are found wherever they are`() throws {
        for text in [
            #"{".sv":{"increment":1}}"#, #"{"a":{"b":{".sv":{"increment":1}}}}"#,
            #"{".value":{".sv":{"increment":1}},".priority":1}"#, #"{".value":1,".priority":{".sv":{"increment":1}}}"#,
            #"{"a":1,".priority":{".sv":{"increment":1}}}"#,
        ] { #expect(try node(text).hasIncrement, "\(text)") }
        for text in ["1", "null", #"{".sv":"timestamp"}"#, #"{"a":{".sv":"timestamp"},".priority":"increment"}"#] {
            #expect(try !node(text).hasIncrement, "\(text)")
        }
    }

    @Test func `priorities anywhere are found`() throws {
        for text in [
            #"{".value":1,".priority":1}"#, #"{"a":1,".priority":"p"}"#, #"{"a":{"b":{".value":1,".priority":0}}}"#,
        ] {
            #expect(try node(text).hasPriorities, "\(text)")
        }
        for text in ["null", "1", #"{"a":{"b":1}}"#] { #expect(try !node(text).hasPriorities, "\(text)") }
    }
}
