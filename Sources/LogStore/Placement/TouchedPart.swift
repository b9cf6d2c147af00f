/// What of the tree an entry's path concerns: the rows at and below a part of it, and single rows above. Bytes, as keys that are
/// the same text for Unicode are different ones, and a mark that combines with a slash is a key of its own.
struct TouchedPart: Equatable {
    /// Empty for all of the tree.
    let part: [UInt8]
    let above: Set<[UInt8]>

    private static let slash = UInt8(ascii: "/")
    private static let priority = Array("/.priority".utf8)

    init(_ path: [UInt8]) {
        var keys = path.split(separator: Self.slash)
        while keys.reduce(0, { $0 + $1.count + 1 }) > NamespaceCopy.mostPathBytes { keys.removeLast() }
        var above = Set<[UInt8]>()
        var prefix: [UInt8] = []
        for key in keys {
            above.insert(prefix.isEmpty ? [Self.slash] : prefix)
            above.insert(prefix + Self.priority)
            prefix.append(Self.slash)
            prefix += key
        }
        part = prefix
        self.above = above
    }
}
