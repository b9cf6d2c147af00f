package import Tree

extension Key {
    /// The first key of the paths that the client itself answers.
    package static let info = Key(".info")
}

extension Path {
    /// Whether the client itself answers it: nothing is written there, and nothing kept.
    package var isInfo: Bool { keys.first == .info }
}
