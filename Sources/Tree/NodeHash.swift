import Crypto

extension Node {
    /// The protocol's hash of a value, version 1: what listens, transactions and ETags compare (reference:
    /// rtdb-protocol 4.1). Base64 of SHA-1, 28 characters; empty for null. O(size of the value).
    public var hash: String {
        String(decoding: hashText, as: UTF8.self)
    }

    private var hashText: [UInt8] {
        if isNull { return [] }
        var text: [UInt8] = []
        appendPriorityText(to: &text)
        if case .branch(let branch) = self {
            for entry in branch.childrenInPriorityOrder {
                text.append(UInt8(ascii: ":"))
                text.append(contentsOf: entry.key.text.utf8)
                text.append(UInt8(ascii: ":"))
                text.append(contentsOf: entry.node.hashText)
            }
        } else {
            withoutPriority.appendLeafText(to: &text)
        }
        return Base64.encode(Digest.sha1(text))
    }

    private func appendPriorityText(to text: inout [UInt8]) {
        let priority = priority
        guard !priority.isNull else { return }
        text.append(contentsOf: "priority:".utf8)
        priority.appendLeafText(to: &text)
        text.append(UInt8(ascii: ":"))
    }

    /// `type:value` of a bare leaf.
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

    private static func appendNumberText(_ value: Double, to text: inout [UInt8]) {
        text.append(contentsOf: "number:".utf8)
        let digits = Array("0123456789abcdef".utf8)
        let bits = value.bitPattern
        for shift in stride(from: 60, through: 0, by: -4) { text.append(digits[Int(bits >> UInt64(shift) & 15)]) }
    }
}

extension Branch {
    /// The children by priority, and by key where priorities are equal.
    var childrenInPriorityOrder: [ChildMap.Entry] {
        var entries = Array(children)
        if entries.contains(where: { !$0.node.priority.isNull }) {
            entries.sort {
                let order = ValueOrder.compare($0.node.priority, $1.node.priority)
                return order == 0 ? $0.key < $1.key : order < 0
            }
        }
        return entries
    }
}
