internal import JSONText

/// Computes the length of a value's JSON text without writing the text. The walk allocates nothing.
public enum JSONLength {
    /// Returns the number of bytes of `JSONWriter.encode(node, form: .export)`.
    public static func export(_ node: Node) -> Int {
        switch node {
        case .null: return 4
        case .bool(let value): return value ? 4 : 5
        case .int(let value): return digits(value)
        case .double(let value): return value.description.utf8.count
        case .string(let text): return string(text)
        case .prioritized(let leaf):
            // {".value":…,".priority":…}
            return 24 + export(leaf.value) + export(leaf.priority)
        case .branch(let branch):
            // The brackets and the commas between the members, then a colon for each member.
            var length = 2 + branch.children.count - 1
            branch.children.forEachEntry { length += string($0.key.text) + 1 + export($0.node) }
            // ,".priority":…
            if !branch.priority.isNull { length += 13 + export(branch.priority) }
            return length
        case .serverValue: return JSONWriter.encode(node, form: .export).count
        }
    }

    private static func digits(_ value: Int64) -> Int {
        var length = value < 0 ? 2 : 1
        var rest = value.magnitude
        while rest >= 10 {
            rest /= 10
            length += 1
        }
        return length
    }

    private static func string(_ text: String) -> Int {
        text.withBytes { bytes in
            var length = bytes.count + 2
            var seen: UInt64 = 0
            var end = ByteScan.endOfPlainText(bytes, from: 0, andDelete: true, seen: &seen)
            while end < bytes.count {
                switch bytes[end] {
                case UInt8(ascii: "\""), UInt8(ascii: "\\"), 0x0A, 0x0D, 0x09: length += 1
                default: length += 5
                }
                end = ByteScan.endOfPlainText(bytes, from: end + 1, andDelete: true, seen: &seen)
            }
            return length
        }
    }
}
