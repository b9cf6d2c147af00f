/// Parsing of objects: their children and their special keys.
extension JSONParser {
    /// The contents of an object's special keys.
    private struct Special {
        var value: Node?
        var priority: Node = .null
        var serverValue: ServerValue?
        var hasAny: Bool { value != nil || serverValue != nil }
    }

    mutating func object(level: Int) throws(JSONError) -> Node {
        try checkLevel(level)
        let base = pending.count
        let start = index
        var special = Special()
        index += 1
        skipSpace()
        if peek == UInt8(ascii: "}") {
            index += 1
            return .null
        }
        var isSorted = true
        while true {
            skipSpace()
            let keyStart = index
            let key = try key()
            if key.isSpecial {
                try self.special(key, at: keyStart, level: level, &special)
            } else {
                let child = try value(level: level + 1)
                if !child.isNull, level >= maxDepth { throw tooDeep(at: keyStart) }
                add(ChildMap.Entry(key: key, node: child), from: base, &isSorted)
            }
            skipSpace()
            switch peek {
            case UInt8(ascii: ","): index += 1
            case UInt8(ascii: "}"):
                index += 1
                return try close(special, from: base, isSorted: isSorted, at: start)
            default: throw syntax("expected , or } in an object")
            }
        }
    }

    /// With more entries than this, a key out of order causes a sort at the object's end instead.
    private static let mostToInsert = 64

    /// Adds a child to the open object, whose entries stay sorted. The last of equal keys wins, even if it is null.
    @inline(__always)
    private mutating func add(_ entry: consuming ChildMap.Entry, from base: Int, _ isSorted: inout Bool) {
        if pending.count == base || (isSorted && pending.orderOfLast(against: entry.key) < 0) {
            if !entry.node.isNull { pending.append(entry) }
        } else if isSorted, pending.count - base <= Self.mostToInsert {
            pending.insert(entry, from: base)
        } else {
            isSorted = false
            pending.append(entry)
        }
    }

    private mutating func special(
        _ key: Key, at start: Int, level: Int, _ special: inout Special
    ) throws(JSONError) {
        switch key.text {
        case ".priority":
            let priority = try value(level: level + 1)
            switch priority {
            case .null, .int, .double, .string, .serverValue: special.priority = priority
            default: throw error(.value, "a priority must be a number or a string", at: start)
            }
        case ".value":
            skipSpace()
            let isObject = peek == UInt8(ascii: "{")
            let node = try value(level: level + 1).withoutPriority
            let isServerValue = if case .serverValue = node { true } else { false }
            guard !node.isBranch, !isObject || isServerValue || node.isNull else {
                throw error(.value, "a .value must be a string, number or boolean", at: start)
            }
            // Null is no value, as in the SDKs. The object's other keys then decide.
            special.value = node.isNull ? nil : node
        case ".sv":
            hasServerValue = true
            special.serverValue = try serverValue(at: start)
        default: throw error(.key, "the key contains \".\"", at: start)
        }
    }

    private mutating func close(
        _ special: Special, from base: Int, isSorted: Bool, at start: Int
    ) throws(JSONError) -> Node {
        guard special.hasAny else { return closeBranch(from: base, isSorted: isSorted, priority: special.priority) }
        guard pending.count == base else {
            throw error(.value, "an object with .value or .sv can't also have children", at: start)
        }
        if let serverValue = special.serverValue {
            guard special.value == nil else {
                throw error(.value, "an object can't have both .sv and .value", at: start)
            }
            return Node.serverValue(serverValue).withPriority(special.priority)
        }
        return (special.value ?? .null).withPriority(special.priority)
    }

    mutating func closeBranch(from base: Int, isSorted: Bool, priority: Node) -> Node {
        guard pending.count > base else { return .null }
        var entries = pending.take(from: base)
        if !isSorted { return Node(sorting: &entries, priority: priority) }
        return .branch(Branch(priority: priority, children: ChildMap(sorted: entries)))
    }

    private mutating func serverValue(at start: Int) throws(JSONError) -> ServerValue {
        skipSpace()
        if peek == UInt8(ascii: "\"") {
            guard try stringValue() == "timestamp" else { throw unknownServerValue(at: start) }
            return ServerValue(.timestamp)
        }
        guard peek == UInt8(ascii: "{") else { throw unknownServerValue(at: start) }
        index += 1
        skipSpace()
        guard try keyString() == "increment" else { throw unknownServerValue(at: start) }
        skipSpace()
        guard let byte = peek, byte == UInt8(ascii: "-") || (0x30...0x39).contains(byte) else {
            throw error(.value, "an increment must be a number", at: start)
        }
        let delta = try number()
        skipSpace()
        guard peek == UInt8(ascii: "}") else { throw unknownServerValue(at: start) }
        index += 1
        return ServerValue(.increment(delta))
    }

    mutating func updateObject(mayNameRoot: Bool) throws(JSONError) -> [ParsedChange] {
        guard peek == UInt8(ascii: "{") else { throw syntax("expected an object") }
        index += 1
        skipSpace()
        var changes: [ParsedChange] = []
        if peek == UInt8(ascii: "}") {
            index += 1
            return changes
        }
        while true {
            skipSpace()
            let start = index
            let path = Path(splitting: try keyString())
            if path.isRoot, !mayNameRoot { throw error(.key, "the key \(KeyRules.Violation.empty.reason)", at: start) }
            try check(path, at: start)
            let allowed = min(maxDepth, KeyRules.maxDepth) - path.depth
            let node = try value(level: maxDepth - allowed)
            if path.namesPriority {
                switch node {
                case .null, .int, .double, .string, .serverValue: break
                default: throw error(.value, "a priority must be a number or a string", at: start)
                }
            }
            changes.append(ParsedChange(path: path, node: node))
            skipSpace()
            switch peek {
            case UInt8(ascii: ","): index += 1
            case UInt8(ascii: "}"):
                index += 1
                return changes
            default: throw syntax("expected , or } in an object")
            }
        }
    }

    private func check(_ path: Path, at start: Int) throws(JSONError) {
        for (position, key) in path.keys.enumerated() {
            if key == .priority, position == path.depth - 1 { continue }
            if let violation = KeyRules.violation(in: key) {
                throw error(.key, "the key \(violation.reason)", at: start)
            }
        }
        guard path.depth <= maxDepth + (path.namesPriority ? 1 : 0) else { throw tooDeep(at: start) }
    }
}
