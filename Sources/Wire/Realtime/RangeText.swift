import Crypto
import Tree

/// The text of one range after another, hash version 2 (reference: rtdb-protocol 3.7). The text is hashed in pieces, so it
/// needs memory for its longest leaf only.
struct RangeText: ~Copyable {
    private var text: [UInt8] = []
    private var hashedBytes = 0
    /// The number of keys of the last leaf's path, whose parentheses are open.
    private var openKeys = 0
    private var needsComma = false
    private var hash = SHA1Stream()

    private static let pieceBytes = 16_384

    /// The size of the text so far in bytes, without its closing parentheses.
    var byteCount: Int { hashedBytes + text.count }

    var isEmpty: Bool { byteCount == 0 }

    /// Returns the Base64 of the SHA-1, or an empty text for an empty range, and begins the text of the next range.
    mutating func takeHash() -> String {
        if isEmpty { return "" }
        for _ in 0...openKeys { text.append(UInt8(ascii: ")")) }
        hash.add(text)
        text.removeAll(keepingCapacity: true)
        (hashedBytes, openKeys, needsComma) = (0, 0, false)
        return hash.finish()
    }

    /// Adds the next leaf in order.
    ///
    /// - Parameter shared: the number of first keys that the leaf shares with the leaf before it in the tree.
    mutating func append(_ keys: [Key], shared: Int, _ value: Node) {
        if isEmpty { text.append(UInt8(ascii: "(")) }
        let shared = min(shared, openKeys)
        for _ in shared..<openKeys { text.append(UInt8(ascii: ")")) }
        if shared < openKeys { needsComma = true }
        for key in keys[shared...] {
            if needsComma { text.append(UInt8(ascii: ",")) }
            needsComma = false
            quoted(key.text)
            text.append(UInt8(ascii: ":"))
            text.append(UInt8(ascii: "("))
        }
        openKeys = keys.count
        if case .prioritized(let leaf) = value {
            text.append(contentsOf: "priority:".utf8)
            self.leaf(leaf.priority)
            text.append(UInt8(ascii: ":"))
            self.leaf(leaf.value)
        } else {
            leaf(value)
        }
        needsComma = true
        guard text.count >= Self.pieceBytes else { return }
        hash.add(text)
        hashedBytes += text.count
        text.removeAll(keepingCapacity: true)
    }

    private mutating func leaf(_ node: Node) {
        guard case .string(let value) = node else { return node.appendLeafHashText(to: &text) }
        text.append(contentsOf: "string:".utf8)
        quoted(value)
    }

    private mutating func quoted(_ value: String) {
        text.append(UInt8(ascii: "\""))
        var value = value
        value.withUTF8 { bytes in
            let isPlain = !bytes.contains { $0 == UInt8(ascii: "\\") || $0 == UInt8(ascii: "\"") }
            if isPlain { return text.append(contentsOf: bytes) }
            for byte in bytes {
                if byte == UInt8(ascii: "\\") || byte == UInt8(ascii: "\"") { text.append(UInt8(ascii: "\\")) }
                text.append(byte)
            }
        }
        text.append(UInt8(ascii: "\""))
    }
}
