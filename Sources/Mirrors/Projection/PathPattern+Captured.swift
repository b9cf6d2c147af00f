import Tree

extension PathPattern {
    /// The keys that the pattern captures of a path at, above or below its records; nil for a path elsewhere.
    func captured(_ path: Path) -> [Key]? {
        var keys: [Key] = []
        for (index, part) in parts.enumerated() {
            guard index < path.depth else { break }
            let key = path[index]
            switch part {
            case .key(let literal): if literal != key { return nil }
            case .capture:
                if key == .priority { return nil }
                keys.append(key)
            }
        }
        return keys
    }
}
