public import Foundation
internal import Tree

extension Node {
    /// Returns the value for apps: `NSNull`, `NSNumber`, `String`, `[String: Any]` or `[Any]`, without priorities.
    ///
    /// Numbers are `NSNumber` and containers are Swift's own types, so that the casts that apps use also work on Linux: `as? Int`,
    /// `as? Double`, `as? [String: Bool]`, `as?
    /// NSDictionary`, `as? NSArray`.
    func foundationValue() -> Any {
        switch self {
        case .branch(let branch):
            if let length = JSONWriter.arrayLength(branch.children) {
                return Node.array(branch.children, length: length)
            }
            var members: [String: Any] = Dictionary(minimumCapacity: branch.children.count)
            for entry in branch.children { members[entry.key.text] = entry.node.foundationValue() }
            return members
        case .prioritized(let leaf): return leaf.value.foundationValue()
        default: return foundationLeaf()
        }
    }

    /// Returns the value with its priorities: as `.value` and `.priority` at a leaf, and as `.priority` among a node's
    /// children. Never an array.
    func foundationExport() -> Any {
        switch self {
        case .branch(let branch):
            var members: [String: Any] = Dictionary(minimumCapacity: branch.children.count + 1)
            for entry in branch.children { members[entry.key.text] = entry.node.foundationExport() }
            if !branch.priority.isNull { members[".priority"] = branch.priority.foundationLeaf() }
            return members
        case .prioritized(let leaf):
            return [".value": leaf.value.foundationLeaf(), ".priority": leaf.priority.foundationLeaf()] as [String: Any]
        default: return foundationLeaf()
        }
    }

    private func foundationLeaf() -> Any {
        switch self {
        case .null: return NSNull()
        case .bool(let value): return NSNumber(value: value)
        case .int(let value): return NSNumber(value: value)
        case .double(let value): return NSNumber(value: value)
        case .string(let text): return text
        case .serverValue(let value): return value.foundationValue()
        case .branch, .prioritized: return foundationValue()
        }
    }

    private static func array(_ children: ChildMap, length: Int) -> [Any] {
        var elements: [Any] = []
        elements.reserveCapacity(length)
        for entry in children {
            let position = Int(entry.key.integerValue ?? 0)
            while elements.count < position { elements.append(NSNull()) }
            elements.append(entry.node.foundationValue())
        }
        return elements
    }
}

extension Tree.ServerValue {
    /// Returns the written form `{".sv": …}`.
    func foundationValue() -> [String: Any] {
        switch kind {
        case .timestamp: [".sv": "timestamp"]
        case .increment(let delta): [".sv": ["increment": delta.foundationValue()]]
        }
    }
}

/// Values that the server fills in when it applies the write. Until then, listeners see the client's estimate.
public enum ServerValue {
    /// Returns the placeholder for the server's time, in milliseconds since 1970.
    public static func timestamp() -> [AnyHashable: Any] { [".sv": "timestamp"] }

    /// Returns the placeholder for the existing number plus `delta`, or for `delta` if there is no number.
    public static func increment(_ delta: NSNumber) -> [AnyHashable: Any] { [".sv": ["increment": delta]] }
}
