/// Paths, and whether other paths lie at, above or below one of them.
public struct PathSet: Sendable {
    private let paths: Set<Path>
    /// The proper ancestors of the paths.
    private let ancestors: Set<Path>

    /// Collects paths and their ancestors.
    public init(_ paths: [Path]) {
        self.paths = Set(paths)
        ancestors = Set(paths.flatMap { path in (0..<path.depth).map(path.prefix) })
    }

    /// Whether a path is one of these, or lies above or below one of them.
    public func touches(_ path: Path) -> Bool { ancestors.contains(path) || covers(path) }

    /// Whether a path is one of these, or lies below one of them.
    private func covers(_ path: Path) -> Bool { (0...path.depth).contains { paths.contains(path.prefix($0)) } }
}
