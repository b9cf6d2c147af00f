import Crypto

extension Node {
    /// The protocol's hash of a value, version 1, which listens, transactions and ETags compare (reference: rtdb-protocol 4.1).
    /// Base64 of SHA-1, 28 characters; empty for null. O(size of the value).
    public var hash: String {
        if isNull { return "" }
        var text: [UInt8] = []
        text.reserveCapacity(512)
        var hasher = SHA1Hasher()
        appendHash(to: &text, &hasher)
        return String(decoding: text, as: UTF8.self)
    }

    /// Appends the hash. The text to be hashed is appended first, and the hash then replaces it. For a child, `text` already
    /// contains the beginning of its parent's text.
    private func appendHash(to text: inout [UInt8], _ hasher: inout SHA1Hasher) {
        let start = text.count
        appendPriorityText(to: &text)
        if case .branch(let branch) = self {
            branch.forEachInPriorityOrder { entry in
                text.append(UInt8(ascii: ":"))
                text.append(contentsOf: entry.key.text.utf8)
                text.append(UInt8(ascii: ":"))
                entry.node.appendHash(to: &text, &hasher)
            }
        } else {
            withoutPriority.appendLeafText(to: &text)
        }
        hasher.replaceEnd(of: &text, from: start)
    }

    private func appendPriorityText(to text: inout [UInt8]) {
        let priority = priority
        guard !priority.isNull else { return }
        text.append(contentsOf: "priority:".utf8)
        priority.appendLeafText(to: &text)
        text.append(UInt8(ascii: ":"))
    }

    /// Appends `type:value` of a leaf without a priority.
    private func appendLeafText(to text: inout [UInt8]) {
        switch self {
        case .bool(let value): text.append(contentsOf: (value ? "boolean:true" : "boolean:false").utf8)
        case .int(let value): Node.appendNumberText(Double(value), to: &text)
        case .double(let value): Node.appendNumberText(value, to: &text)
        case .string(let value):
            text.append(contentsOf: "string:".utf8)
            text.append(contentsOf: value.utf8)
        case .null, .branch, .prioritized, .serverValue: break
        }
    }

    /// Appends `type:value` of a leaf without a priority, in the format of hashed texts.
    public func appendLeafHashText(to text: inout [UInt8]) { appendLeafText(to: &text) }

    private static func appendNumberText(_ value: Double, to text: inout [UInt8]) {
        text.append(contentsOf: "number:".utf8)
        let digits: StaticString = "0123456789abcdef"
        let bits = value.bitPattern
        for digit in 0..<16 { text.append(digits.utf8Start[Int(bits >> UInt64(60 - digit * 4) & 15)]) }
    }
}

extension Branch {
    /// Visits the children ordered by priority, and by key among equal priorities.
    func forEachInPriorityOrder(_ body: (ChildMap.Entry) -> Void) {
        guard children.contains(where: { !$0.node.priority.isNull }) else { return children.forEachEntry(body) }
        var entries = Array(children)
        entries.sort {
            let order = ValueOrder.compare($0.node.priority, $1.node.priority)
            return order == 0 ? $0.key < $1.key : order < 0
        }
        for entry in entries { body(entry) }
    }
}
