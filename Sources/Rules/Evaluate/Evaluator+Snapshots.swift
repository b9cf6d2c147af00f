internal import Tree

/// Evaluates snapshots. A snapshot is a node. Only `parent()` of a computed path needs the path to the node.
extension Evaluator {
    mutating func node(_ ref: OpRef) throws(EvaluationError) -> Node {
        let result = try untracedNode(ref)
        tracer.record(ref, Value(result))
        return result
    }

    @inline(__always)
    private mutating func untracedNode(_ ref: OpRef) throws(EvaluationError) -> Node {
        try spend(1, ref)
        switch program[ref] {
        case .location(let version, let levels):
            let depth = try depth(of: version, levels, ref)
            return version == .newData ? frames[depth].new : frames[depth].old
        case .child(let base, let parts): return try node(below: try node(base), parts)
        case .parent: return node(at: try location(ref))
        case .choose(let condition, let then, let otherwise): return try node(try test(condition) ? then : otherwise)
        default:
            assertionFailure("the compiled form of a snapshot is not a snapshot")
            return .null
        }
    }

    @inline(__always)
    private func depth(of version: RuleTree, _ levels: Int32, _ ref: OpRef) throws(EvaluationError) -> Int {
        let depth = (version == .root ? 0 : frames.count - 1) - Int(levels)
        guard depth >= 0 else { throw EvaluationError(reason: .aboveTheRoot, ref: ref) }
        guard knowledge.includes(version) else { throw EvaluationError(reason: .notKnown, ref: ref) }
        return depth
    }

    /// Returns the node at the path's parts. All parts are evaluated, even below a missing node, because one may be an error.
    mutating func node(below base: Node, _ parts: OpList) throws(EvaluationError) -> Node {
        var node = base
        for index in parts.start..<(parts.start + parts.count) {
            let part = program.references[Int(index)]
            switch program[part] {
            case .key(let key): node = node.child(program.keys[Int(key)])
            case .capture(let depth): node = node.child(Key(frames[Int(depth)].key))
            default: node = try descend(node, try text(ofPart: part), part)
            }
        }
        return node
    }

    private mutating func descend(_ node: Node, _ path: String, _ ref: OpRef) throws(EvaluationError) -> Node {
        try spend(bytes: path.utf8.count, ref)
        var path = path
        let isKey = path.withUTF8 { bytes in
            for byte in bytes where byte == UInt8(ascii: "/") { return false }
            return true
        }
        if isKey { return path.isEmpty ? node : node.child(Key(path)) }
        try spend(bytes: path.utf8.count * 16, ref)
        var node = node
        for key in Path(splitting: path).keys { node = node.child(key) }
        return node
    }

    /// Returns the text of a computed path part.
    private mutating func text(ofPart part: OpRef) throws(EvaluationError) -> String {
        switch program[part] {
        case .path(let ref): return try string(ref, part)
        case .joined(let ref):
            switch try value(ref) {
            case .string(let text): return text
            case .number(let number): return NumberText.string(number)
            default: throw EvaluationError(reason: .notJoinable, ref: part)
            }
        default:
            assertionFailure("the compiled form of a path part is not a path part")
            return ""
        }
    }

    // MARK: Paths of snapshots

    /// A frame of the walk, and keys below it.
    private struct Location {
        let version: RuleTree
        var depth: Int
        var keys: [Key] = []
    }

    private mutating func location(_ ref: OpRef) throws(EvaluationError) -> Location {
        try spend(1, ref)
        switch program[ref] {
        case .location(let version, let levels):
            return Location(version: version, depth: try depth(of: version, levels, ref))
        case .child(let base, let parts):
            var location = try location(base)
            for index in parts.start..<(parts.start + parts.count) {
                let part = program.references[Int(index)]
                switch program[part] {
                case .key(let key): location.keys.append(program.keys[Int(key)])
                case .capture(let depth): location.keys.append(Key(frames[Int(depth)].key))
                default:
                    let text = try text(ofPart: part)
                    try spend(bytes: text.utf8.count, part)
                    try spend(bytes: text.utf8.count * 16, part)
                    location.keys.append(contentsOf: Path(splitting: text).keys)
                }
            }
            return location
        case .parent(let base):
            var location = try location(base)
            if location.keys.isEmpty {
                guard location.depth > 0 else { throw EvaluationError(reason: .aboveTheRoot, ref: ref) }
                location.depth -= 1
            } else {
                location.keys.removeLast()
            }
            return location
        case .choose(let condition, let then, let otherwise):
            return try location(try test(condition) ? then : otherwise)
        default:
            assertionFailure("the compiled form of a snapshot is not a snapshot")
            return Location(version: .root, depth: 0)
        }
    }

    private func node(at location: Location) -> Node {
        let frame = frames[location.depth]
        return location.keys.reduce(location.version == .newData ? frame.new : frame.old) { $0.child($1) }
    }
}
