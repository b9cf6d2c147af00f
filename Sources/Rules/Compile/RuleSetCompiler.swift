internal import Tree

/// Compiles a document's nodes and rules into flat arrays.
///
///     text -- DocumentParser --> SourceNode (tree) -- node() --> nodes, children, indexes
///                                    |
///                                    | text of each rule
///                                    v
///               ExpressionParser --> Syntax (tree) -- ExpressionCompiler --> operations of the program
///
/// The results are flat arrays that refer to each other by index. For example, the document
/// `{"rules": {".read": "auth != null", "rooms": {"$room": {".write": "auth.uid == $room"}}}}` becomes:
///
///     nodes               children           rules           program.operations
///     0: read 0           0: rooms -> 1      0: root 2       0: auth
///     1: wildcard 2       1: -               1: root 6       1: null
///     2: write 1          2: -                               2: unequal(0, 1)
///                                                            3: auth
///                                                            4: member(3, key "uid")
///                                                            5: capture(2)
///                                                            6: equal(4, 5)
///
/// The first node is the root. The operands of an operation come before the operation. The number of a capture is the depth
/// of its key in the path, counted from 1. `Walk` follows a path through the nodes, and `Evaluator` runs the rules' operations.
///
/// The first mistake in an expression ends the compilation of that expression. The compiler continues with the other
/// expressions, so that an upload reports the mistakes of all. An unreadable document ends the compilation.
struct RuleSetCompiler {
    private var program = Program()
    private var nodes: ContiguousArray<CompiledNode> = []
    private var children: ContiguousArray<ChildTable> = []
    private var indexes: [Int: [Query.Index]] = [:]
    private var rules: ContiguousArray<CompiledRule> = []
    private var sources: [RuleSource] = []
    private var errors: [TextError] = []
    private var warnings: [TextError] = []

    static func compile(
        _ text: [UInt8], maxRegexCost: Int
    ) throws(RulesError) -> (rules: CompiledRules, warnings: [RulesError.Problem]) {
        guard String(validating: text, as: UTF8.self) != nil else {
            throw RulesError([TextError(offset: 0, message: "Parse error.")], in: text)
        }
        var parser = DocumentParser(text)
        var compiler = RuleSetCompiler()
        compiler.program.regexBudget = maxRegexCost
        do {
            let root = try parser.document()
            _ = compiler.node(root, pattern: [], captures: [])
        } catch {
            throw RulesError([error], in: text)
        }
        let errors = parser.errors + compiler.errors
        guard errors.isEmpty else { throw RulesError(errors, in: text) }
        let rules = CompiledRules(
            program: compiler.program, nodes: compiler.nodes, children: compiler.children, indexes: compiler.indexes,
            rules: compiler.rules, sources: compiler.sources)
        return (rules, RulesError(compiler.warnings, in: text).problems)
    }

    private mutating func node(
        _ source: SourceNode, pattern: [String], captures: [(name: String, depth: Int)]
    ) -> Int32 {
        let index = nodes.count
        nodes.append(CompiledNode())
        children.append(ChildTable())
        var node = CompiledNode()
        for rule in source.rules {
            let compiled = self.rule(rule, pattern: pattern, captures: captures)
            switch rule.kind {
            case .read: node.read = compiled
            case .write: node.write = compiled
            case .validate: node.validate = compiled
            }
        }
        if !source.indexes.isEmpty { indexes[index] = source.indexes.map(Self.index) }
        var entries: [ChildTable.Entry] = []
        for child in source.children {
            let compiled = self.node(child.node, pattern: pattern + [child.key.text], captures: captures)
            entries.append(ChildTable.Entry(key: child.key, node: compiled))
            if validates(compiled) { node.validatesBelow = true }
            if grants(compiled) { node.grantsBelow = true }
        }
        children[index] = ChildTable(entries)
        if let wildcard = source.wildcard {
            let captures = captures + [(wildcard.name, pattern.count + 1)]
            node.wildcard = self.node(wildcard.node, pattern: pattern + [wildcard.name], captures: captures)
            if validates(node.wildcard) { node.validatesBelow = true }
            if grants(node.wildcard) { node.grantsBelow = true }
        }
        nodes[index] = node
        return Int32(index)
    }

    private func validates(_ node: Int32) -> Bool {
        nodes[Int(node)].validate >= 0 || nodes[Int(node)].validatesBelow
    }

    private func grants(_ node: Int32) -> Bool {
        let write = nodes[Int(node)].write
        return nodes[Int(node)].grantsBelow || write >= 0 && rules[Int(write)].constant != false
    }

    private static func index(_ name: String) -> Query.Index {
        switch name {
        case ".value": .value
        case ".key": .key
        case ".priority": .priority
        default: .child(Path(splitting: name))
        }
    }

    /// Returns the rule's index, or -1 if the rule has a mistake.
    private mutating func rule(
        _ source: SourceRule, pattern: [String], captures: [(name: String, depth: Int)]
    ) -> Int32 {
        do {
            let syntax = try ExpressionParser.parse(source.text.bytes)
            var compiler = ExpressionCompiler(kind: source.kind, captures: captures, program: program)
            let first = program.operations.count
            // The program has one owner at a time. Otherwise every expression would copy it.
            program = Program()
            defer { program = compiler.program }
            let root = try compiler.rule(syntax)
            let more = compiler.warnings.prefix(max(0, RuleSet.maxWarnings - warnings.count))
            warnings += more.map { located($0, source.text) }
            var constant: Bool?
            if case .boolean(let value) = compiler.program[root] { constant = value }
            let isSteady = !compiler.program.operations[first...].contains(where: \.looksAround)
            rules.append(CompiledRule(root: root, constant: constant, isSteady: isSteady))
            sources.append(
                RuleSource(
                    kind: source.kind, text: source.text.string, offset: source.text.start,
                    operations: first..<compiler.program.operations.count, pattern: pattern))
            return Int32(rules.count - 1)
        } catch {
            errors.append(located(error, source.text))
            return -1
        }
    }

    private func located(_ error: TextError, _ text: ExpressionText) -> TextError {
        TextError(offset: text.documentOffset(error.offset), message: error.message)
    }
}
