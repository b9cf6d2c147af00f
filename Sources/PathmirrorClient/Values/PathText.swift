internal import ClientCore
internal import Tree

/// Paths as apps write them.
enum PathText {
    /// The path of a text below an ancestor. `.info` is allowed as the first key below the root.
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
