internal import Tree

/// Walks along paths and evaluates the rules there (reference: security-rules 7). One walk decides about one read or write.
struct Walk<Tracer: WalkTracer> {
    private let rules: CompiledRules
    private(set) var evaluator: Evaluator<Tracer>

    init(
        _ rules: CompiledRules, _ surroundings: EvaluationEnvironment, limits: RuleLimits, tracer: Tracer,
        knowledge: Knowledge = .everything
    ) {
        self.rules = rules
        evaluator = Evaluator(rules.program, surroundings, limits: limits, tracer: tracer, knowledge: knowledge)
    }

    /// The result of a rule.
    private enum Verdict {
        case yes
        case no
        case failed
        /// The result depends on values that are not known in this evaluation.
        case open
    }

    private mutating func verdict(_ index: Int32) -> Verdict {
        let rule = rules.rules[Int(index)]
        evaluator.tracer.begin(RuleID(index: index), evaluator.frames)
        if let constant = rule.constant {
            evaluator.tracer.record(rule.root, .boolean(constant))
            evaluator.tracer.end(.success(constant))
            return constant ? .yes : .no
        }
        do {
            let result = try evaluator.run(rule.root)
            evaluator.tracer.end(.success(result))
            return result ? .yes : .no
        } catch {
            evaluator.tracer.end(.failure(error))
            return error.reason == .notKnown ? .open : .failed
        }
    }

    // MARK: Reads

    mutating func read(_ path: Path, root: Node) -> Decision {
        var last: RuleID?
        if grantsRead(path, root: root, &last) { return .allowed }
        return .denied(Denial(reason: .noReadAllowed, path: path, rule: last))
    }

    /// Whether a read is allowed, or may be allowed because the decision depends on values that this walk does not know.
    mutating func mayRead(_ path: Path, root: Node) -> Bool {
        var last: RuleID?
        return grantsRead(path, root: root, &last)
    }

    private mutating func grantsRead(_ path: Path, root: Node, _ last: inout RuleID?) -> Bool {
        let depthOfPath = path.namesPriority ? path.depth - 1 : path.depth
        evaluator.frames.append(Frame(key: "", old: root, new: .null))
        var node = 0
        var depth = 0
        while true {
            let rule = rules.nodes[node].read
            if rule >= 0 {
                switch verdict(rule) {
                case .yes, .open: return true
                case .no, .failed: last = RuleID(index: rule)
                }
            }
            guard depth < depthOfPath, let next = rules.child(of: node, path[depth]) else { break }
            let key = path[depth]
            descend(key, new: .null)
            node = next
            depth += 1
        }
        return false
    }

    /// Descends to a child of the last frame.
    private mutating func descend(_ key: Key, new: Node) {
        let old = evaluator.frames[evaluator.frames.count - 1].old.child(key)
        evaluator.frames.append(Frame(key: key.text, old: old, new: new))
    }

    private var newNode: Node {
        @inline(__always) get { evaluator.frames[evaluator.frames.count - 1].new }
    }

    // MARK: Writes

    /// Decides about one written path. `new` is the whole tree with all changes of the operation.
    mutating func write(_ path: Path, root: Node, new: Node) -> Denial? {
        let depthOfPath = path.namesPriority ? path.depth - 1 : path.depth
        evaluator.frames.removeAll(keepingCapacity: true)
        evaluator.frames.append(Frame(key: "", old: root, new: new))
        var node = 0
        var depth = 0
        var isGranted = false
        var last: RuleID?
        while true {
            let write = rules.nodes[node].write
            if !isGranted, write >= 0 {
                if case .yes = verdict(write) { isGranted = true }
                last = RuleID(index: write)
            }
            if let denial = validate(node) { return denial }
            guard depth < depthOfPath, let next = rules.child(of: node, path[depth]) else { break }
            let key = path[depth]
            descend(key, new: newNode.child(key))
            node = next
            depth += 1
        }
        guard isGranted else { return Denial(reason: .noWriteAllowed, path: path, rule: last) }
        return depth == depthOfPath ? validateBelow(node) : nil
    }

    /// Returns a denial if no value that could be written at the path (or, with `below`, anywhere below it) would be allowed,
    /// as far as `.write` rules decide this from the known values. Returns nil if a value may be allowed.
    ///
    /// - Parameter root: the tree before the write, or `.null` if it is not known.
    mutating func refusal(of path: Path, below: Bool, root: Node) -> Denial? {
        let depthOfPath = path.namesPriority ? path.depth - 1 : path.depth
        evaluator.frames.removeAll(keepingCapacity: true)
        evaluator.frames.append(Frame(key: "", old: root, new: .null))
        var node = 0
        var depth = 0
        var last: RuleID?
        while true {
            let write = rules.nodes[node].write
            if write >= 0 {
                switch verdict(write) {
                case .yes, .open: return nil
                case .no, .failed: last = RuleID(index: write)
                }
            }
            guard depth < depthOfPath else {
                if below, rules.nodes[node].grantsBelow { return nil }
                break
            }
            guard let next = rules.child(of: node, path[depth]) else { break }
            descend(path[depth], new: .null)
            node = next
            depth += 1
        }
        return Denial(reason: .noWriteAllowed, path: path, rule: last)
    }

    /// Evaluates the node's `.validate` for the last frame, unless no node is there after the write.
    @inline(__always)
    private mutating func validate(_ node: Int) -> Denial? {
        let rule = rules.nodes[node].validate
        guard rule >= 0, !newNode.isNull else { return nil }
        switch verdict(rule) {
        case .yes: return nil
        case .no: return Denial(reason: .invalid, path: currentPath, rule: RuleID(index: rule))
        case .failed, .open: return Denial(reason: .failed, path: currentPath, rule: RuleID(index: rule))
        }
    }

    private var currentPath: Path { Path(evaluator.frames.dropFirst().map { Key($0.key) }) }

    /// Evaluates the `.validate` of every existing node strictly below the last frame. Recursion is as deep as the rules.
    private mutating func validateBelow(_ node: Int) -> Denial? {
        let rule = rules.nodes[node]
        guard rule.validatesBelow, case .branch(let branch) = newNode else { return nil }
        if rule.wildcard >= 0 {
            for entry in branch.children {
                guard let next = rules.child(of: node, entry.key) else { continue }
                if let denial = validateChild(entry.key, entry.node, next) { return denial }
            }
        } else {
            for entry in rules.children[node].entries {
                guard let child = branch.children[entry.key] else { continue }
                if let denial = validateChild(entry.key, child, Int(entry.node)) { return denial }
            }
        }
        return nil
    }

    private mutating func validateChild(_ key: Key, _ child: Node, _ node: Int) -> Denial? {
        let rule = rules.nodes[node]
        guard rule.validate >= 0 || rule.validatesBelow else { return nil }
        descend(key, new: child)
        defer { evaluator.frames.removeLast() }
        return validate(node) ?? validateBelow(node)
    }
}

/// Receives the rules that are evaluated, and the values within them.
protocol WalkTracer: EvaluationTracer {
    mutating func begin(_ rule: RuleID, _ frames: ContiguousArray<Frame>)
    mutating func end(_ result: Result<Bool, EvaluationError>)
}

extension NoTracer: WalkTracer {
    @inline(__always)
    mutating func begin(_ rule: RuleID, _ frames: ContiguousArray<Frame>) {}
    @inline(__always)
    mutating func end(_ result: Result<Bool, EvaluationError>) {}
}
