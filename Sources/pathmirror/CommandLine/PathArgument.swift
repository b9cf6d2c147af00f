import Tree

/// A path given on the command line.
enum PathArgument {
    static func parse(_ text: String) throws -> Path {
        let path = Path(splitting: text)
        guard path.depth <= KeyRules.maxDepth else {
            throw UsageError("\(text) is more than \(KeyRules.maxDepth) levels deep.")
        }
        for key in path.keys {
            if let violation = KeyRules.violation(in: key) {
                throw UsageError("The path \(text) has a key that \(violation.reason).")
            }
        }
        return path
    }
}
