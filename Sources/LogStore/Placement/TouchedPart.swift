/// What of the tree an entry's path concerns: the rows at and below a part of it, and single rows above.
struct TouchedPart: Equatable {
    /// Empty for all of the tree.
    let part: String
    let above: Set<String>

    init(_ path: String) {
        var keys = path.split(separator: "/")
        while keys.reduce(0, { $0 + $1.utf8.count + 1 }) > NamespaceCopy.mostPathBytes { keys.removeLast() }
        part = keys.map { "/\($0)" }.joined()
        var above = Set<String>()
        var prefix = ""
        for key in keys {
            above.insert(prefix.isEmpty ? "/" : prefix)
            above.insert("\(prefix)/.priority")
            prefix += "/\(key)"
        }
        self.above = above
    }
}
