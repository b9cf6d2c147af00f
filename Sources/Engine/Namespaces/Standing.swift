/// Whether a namespace's batches may share a transaction with those of others. A value.
///
/// Who made others wait stands aside for some batches: its rules or its listeners take long, or somebody holds its lock.
struct Standing: Equatable, Sendable {
    /// How many batches go alone before the namespace is tried among others again.
    static let memory = 64
    /// How many batches in a row have to have been slow. One may be so by chance: a busy machine stops threads for some
    /// milliseconds, and whoever they work for just then looks slow.
    static let mostSlow = 2

    private var left = 0
    private var slow = 0

    var mayJoin: Bool { left == 0 }

    /// It has made others wait.
    mutating func standAside() {
        left = Self.memory
        slow = 0
    }

    /// A batch of it was worked for among those of others, and has kept them from going on for long, or not.
    mutating func wentWithOthers(isSlow: Bool) {
        slow = isSlow ? slow + 1 : 0
        if slow >= Self.mostSlow { standAside() }
    }

    /// A batch went alone.
    mutating func wentAlone() { left = max(0, left - 1) }
}
