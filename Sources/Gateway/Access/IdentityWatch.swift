/// Says when identities have to be looked at again: when the first of them ends, or when secrets were replaced. One for each
/// loop, so that open connections cost nothing while nothing ends.
struct IdentityWatch {
    /// Milliseconds since 1970.
    private var earliestEnd = Int64.max
    private var generation = 0

    /// Counts a identity in.
    mutating func add(_ identity: Identity) {
        if let end = identity.expiresAt { earliestEnd = min(earliestEnd, end) }
    }

    /// True when all identities are to be looked at; those that still hold are then to be added again.
    mutating func isDue(generation: Int, now: Int64) -> Bool {
        guard now >= earliestEnd || generation != self.generation else { return false }
        earliestEnd = .max
        self.generation = generation
        return true
    }
}
