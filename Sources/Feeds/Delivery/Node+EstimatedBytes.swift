public import Tree

extension Node {
    /// About what the value costs in memory, in bytes: exactly counted for what is small, and else by its first rows.
    public var estimatedBytes: Int {
        guard case .branch = self else { return 64 + textBytes }
        var left = 256
        let texts = textBytes(&left)
        let counted = max(1, 256 - left)
        let rows = rowCount
        // An estimate may be far beyond what there is: sums of it stay numbers.
        return min(64 * rows + (rows > counted ? texts / counted * rows : texts), 1 << 36)
    }

    private var textBytes: Int {
        switch self {
        case .string(let text): text.utf8.count
        case .prioritized(let leaf): leaf.value.textBytes
        default: 0
        }
    }

    private func textBytes(_ left: inout Int) -> Int {
        guard case .branch(let branch) = self else {
            left -= 1
            return textBytes
        }
        var sum = 0
        for entry in branch.children {
            guard left > 0 else { break }
            sum += entry.node.textBytes(&left) + entry.key.text.utf8.count
        }
        return sum
    }
}
