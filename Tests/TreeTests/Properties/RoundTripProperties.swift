import Testing
import Tree

struct RoundTripProperties {
    @Test(arguments: 0..<300 as Range<UInt64>)
    func `export form reads back as the same tree`(seed: UInt64) throws {
        var generator = TreeGenerator(seed: seed)
        let tree = generator.tree(depth: 5)
        let text = json(tree)
        #expect(try node(text) == tree, "seed \(seed)")
        #expect(try json(node(text)) == text)
        let pretty = String(decoding: JSONWriter.encode(tree, form: .export, pretty: true), as: UTF8.self)
        #expect(try node(pretty) == tree)
        // Plain form loses priorities, and no other data.
        let plain = try node(json(tree, .plain))
        #expect(ModelTree(plain).withoutPriorities == ModelTree(tree).withoutPriorities)
    }

    @Test(arguments: 0..<100 as Range<UInt64>)
    func `changes read back as themselves`(seed: UInt64) throws {
        var generator = TreeGenerator(seed: seed)
        let changes = (0..<generator.random.below(8)).map { _ in
            generator.random.oneIn(5)
                ? Change(path: generator.path(maxDepth: 5).appending(.priority), value: generator.priority())
                : Change(path: generator.path(maxDepth: 5), value: generator.tree(depth: 3))
        }
        #expect(try ChangeCodec.decode(ChangeCodec.encode(changes)) == changes, "seed \(seed)")
    }
}

extension ModelTree {
    var withoutPriorities: ModelTree {
        switch self {
        case .null: .null
        case .leaf(let value, _): .leaf(value, priority: .null)
        case .branch(let children, _): .branch(children.mapValues(\.withoutPriorities), priority: .null)
        }
    }
}
