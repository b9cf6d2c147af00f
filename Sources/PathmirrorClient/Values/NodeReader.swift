internal import ClientCore
internal import Foundation
internal import Tree

/// Converts the values that an app writes, of Foundation and Swift types, to nodes, and checks the protocol's rules.
struct NodeReader {
    /// The current path, for errors and for the depth.
    private var path: Path
    /// The number of enclosing containers. `.value` and `.priority` do not extend the path.
    private var nesting = 0

    /// Returns the node of a value that is written at the path. Nil and `NSNull` are null.
    static func node(of value: Any?, at path: Path, priority: Any? = nil) throws(InvalidArgument) -> Node {
        var reader = NodeReader(path: path)
        let node = try reader.read(value)
        guard let priority else { return node }
        return node.withPriority(try reader.readPriority(priority))
    }

    /// Returns the node of a priority: null, a number, a string, or the server's timestamp.
    static func priority(_ value: Any?, at path: Path) throws(InvalidArgument) -> Node {
        var reader = NodeReader(path: path)
        return try reader.readPriority(value)
    }

    /// Returns the changes of an update, relative to the path. Throws if one path is above another.
    static func changes(_ values: [AnyHashable: Any], at path: Path) throws(InvalidArgument) -> [Change] {
        var changes: [Change] = []
        changes.reserveCapacity(values.count)
        for (name, value) in values {
            guard let text = name.base as? String else {
                throw InvalidArgument("the update of \(path) has a key that is not a string: \(name)")
            }
            let relative = Path(splitting: text)
            guard !relative.isRoot else { throw InvalidArgument("the update of \(path) has an empty path") }
            if relative.namesPriority {
                if let parent = relative.parent { try PathText.check(parent) }
                let node = try priority(value, at: path.appending(relative))
                changes.append(Change(path: relative, value: node))
            } else {
                try PathText.check(relative)
                changes.append(Change(path: relative, value: try node(of: value, at: path.appending(relative))))
            }
        }
        if let overlap = Change.overlap(in: changes) {
            throw InvalidArgument("the update of \(path) writes \(overlap.ancestor) and \(overlap.path) below it")
        }
        return changes
    }

    // MARK: Values

    private mutating func read(_ value: Any?) throws(InvalidArgument) -> Node {
        // The most common types come first. A cast to a Swift type would also accept an NSNumber as a Bool, so Swift types come last.
        guard let value else { return .null }
        switch value {
        case let text as String: return try string(text)
        case let number as NSNumber: return try self.number(number)
        case is NSNull: return .null
        case let members as [String: Any]: return try object(members.lazy.map { ($0.key, $0.value) })
        case let elements as [Any]: return try array(elements)
        case let members as [AnyHashable: Any]:
            var named: [(String, Any)] = []
            for (name, value) in members {
                guard let text = name.base as? String else { throw error("has a key that is not a string: \(name)") }
                named.append((text, value))
            }
            return try object(named)
        default:
            if let optional = value as? any OptionalValue { return try read(optional.wrapped) }
            throw error("is of type \(type(of: value)), which can't be stored")
        }
    }

    private mutating func object(_ members: some Sequence<(String, Any)>) throws(InvalidArgument) -> Node {
        nesting += 1
        defer { nesting -= 1 }
        guard nesting <= KeyRules.maxDepth + 8 else { throw error("is deeper than \(KeyRules.maxDepth) levels") }
        var children: [(Key, Node)] = []
        children.reserveCapacity(members.underestimatedCount)
        var priority = Node.null
        var leaf: Node?
        for (name, value) in members {
            switch name {
            case ".priority": priority = try readPriority(value)
            case ".value": leaf = try read(value)
            case ".sv": return try serverValue(value, alone: members.underestimatedCount == 1)
            default:
                let key = Key(name)
                if let violation = KeyRules.violation(in: key) {
                    throw error("has the key \"\(name)\", which \(violation.reason)")
                }
                path.append(key)
                if path.depth > KeyRules.maxDepth { throw error("is deeper than \(KeyRules.maxDepth) levels") }
                let node = try read(value)
                path.removeLast()
                if !node.isNull { children.append((key, node)) }
            }
        }
        if let leaf {
            guard children.isEmpty else { throw error("has .value and other children") }
            guard !leaf.isBranch else { throw error("has a .value that is not a leaf") }
            return leaf.withPriority(priority)
        }
        return Node(children: children, priority: priority)
    }

    private mutating func array(_ elements: [Any]) throws(InvalidArgument) -> Node {
        var children: [(Key, Node)] = []
        children.reserveCapacity(elements.count)
        for (position, element) in elements.enumerated() {
            let key = Key(String(position))
            path.append(key)
            if path.depth > KeyRules.maxDepth { throw error("is deeper than \(KeyRules.maxDepth) levels") }
            let node = try read(element)
            path.removeLast()
            if !node.isNull { children.append((key, node)) }
        }
        return Node(children: children)
    }

    // MARK: Leaves

    private func string(_ text: String) throws(InvalidArgument) -> Node {
        guard text.utf8.count <= KeyRules.maxStringBytes else {
            throw error("is a string of \(text.utf8.count) bytes, more than \(KeyRules.maxStringBytes)")
        }
        return .string(text)
    }

    private func number(_ number: NSNumber) throws(InvalidArgument) -> Node {
        if number.isBoolean { return .bool(number.boolValue) }
        if number is NSDecimalNumber {
            // The decimal's text is exact; the conversion to a double may not be.
            let text = number.stringValue
            if let integer = Int64(text) { return .int(integer) }
            guard let double = Double(text), double.isFinite else {
                throw error("is \(text), which is not a finite number")
            }
            return Node(number: double)
        }
        switch UInt8(bitPattern: number.objCType.pointee) {
        case UInt8(ascii: "f"), UInt8(ascii: "d"):
            guard number.doubleValue.isFinite else {
                throw error("is \(number.doubleValue), which is not a finite number")
            }
            return Node(number: number.doubleValue)
        case UInt8(ascii: "Q"):
            return Int64(exactly: number.uint64Value).map(Node.int) ?? Node(number: Double(number.uint64Value))
        default: return .int(number.int64Value)
        }
    }

    private mutating func readPriority(_ value: Any?) throws(InvalidArgument) -> Node {
        let node = try read(value)
        switch node {
        case .null, .int, .double, .string: return node
        case .serverValue(let server) where server.kind == .timestamp: return node
        default: throw error("has a priority that is neither a number nor a string")
        }
    }

    private mutating func serverValue(_ value: Any, alone: Bool) throws(InvalidArgument) -> Node {
        guard alone else { throw error("has other keys beside .sv") }
        if value as? String == "timestamp" { return .serverValue(Tree.ServerValue(.timestamp)) }
        if let members = value as? [String: Any], members.count == 1, let delta = members["increment"] as? NSNumber,
            !delta.isBoolean
        {
            return .serverValue(Tree.ServerValue(.increment(try number(delta))))
        }
        throw error("has an unknown .sv: use ServerValue.timestamp() or ServerValue.increment(_:)")
    }

    private func error(_ reason: String) -> InvalidArgument { InvalidArgument("the value at \(path) \(reason)") }
}

extension NSNumber {
    /// Whether the number was created from a Boolean. Equality does not distinguish Booleans from 0 and 1.
    var isBoolean: Bool {
        guard objCType.pointee == 0x63 || objCType.pointee == 0x42 else { return false }  // "c" or "B"
        // Foundation has only two Boolean objects: every number created from a Boolean is one of them.
        return self === (NSNumber(value: true) as AnyObject) || self === (NSNumber(value: false) as AnyObject)
    }
}

/// An optional of any type, which may be hidden in an `Any`.
protocol OptionalValue {
    var wrapped: Any? { get }
}

extension Optional: OptionalValue {
    var wrapped: Any? { map { $0 } }
}

/// Paths as apps write them.
enum PathText {
    /// Returns the path for a text below an ancestor. `.info` is allowed as the first key below the root.
    static func path(_ text: String, below ancestor: Path = .root) throws(InvalidArgument) -> Path {
        let relative = Path(splitting: text)
        let path = ancestor.appending(relative)
        try check(relative, allowsInfo: ancestor.isRoot)
        guard path.depth <= KeyRules.maxDepth else {
            throw InvalidArgument("the path \(path) is deeper than \(KeyRules.maxDepth) keys")
        }
        return path
    }

    static func check(_ path: Path, allowsInfo: Bool = false) throws(InvalidArgument) {
        for (index, key) in path.keys.enumerated() {
            if index == 0, allowsInfo, key == .info { continue }
            if let violation = KeyRules.violation(in: key) {
                throw InvalidArgument("the path \(path) has the key \"\(key)\", which \(violation.reason)")
            }
        }
    }
}
