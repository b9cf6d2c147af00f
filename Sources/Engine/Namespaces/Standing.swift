/// Whether a namespace's batches may share a transaction with those of others. A value.
///
/// Who made others wait stands aside for some batches: its rules take long, or somebody holds its lock.
struct Standing: Equatable, Sendable {
    /// How many batches go alone before the namespace is tried among others again.
    static let memory = 64

    private var left = 0

    var mayJoin: Bool { left == 0 }

    /// It has made others wait.
    mutating func standAside() { left = Self.memory }

    /// A batch went alone.
    mutating func wentAlone() { left = max(0, left - 1) }
}
