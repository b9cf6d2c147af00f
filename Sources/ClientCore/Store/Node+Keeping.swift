public import Tree

extension Node {
    /// What lies at or below some paths, and nothing else: priorities above them go too.
    public func keeping(_ paths: [Path]) -> Node {
        if paths.contains(where: \.isRoot) { return self }
        return paths.reduce(.null) { kept, path in
            let part = self[path]
            return part.isNull ? kept : kept.replacing(path, with: part)
        }
    }
}
