/// Whether others write to a namespace, too: then batches take the head's lock before they are evaluated. A value.
struct Contention: Equatable, Sendable {
    /// How many batches in a row must find nobody else before the lock is no longer worth its round trip.
    static let memory = 64

    private var left = 0

    /// Whether somebody else was found to be writing lately.
    var isContended: Bool { left > 0 }

    /// A batch found the head moved.
    mutating func conflicted() { left = Self.memory }

    /// A batch was committed.
    mutating func committed() { left = max(0, left - 1) }
}
