/// Says when sessions have to be looked at again: when the first of them ends, or when secrets were replaced. One for each
/// loop, so that open connections cost nothing while nothing ends.
struct SessionWatch {
    /// Milliseconds since 1970.
    private var earliestEnd = Int64.max
    private var generation = 0

    /// Counts a session in.
    mutating func add(_ session: Session) {
        if let end = session.expiresAt { earliestEnd = min(earliestEnd, end) }
    }

    /// True when all sessions are to be looked at; those that still hold are then to be added again.
    mutating func isDue(generation: Int, now: Int64) -> Bool {
        guard now >= earliestEnd || generation != self.generation else { return false }
        earliestEnd = .max
        self.generation = generation
        return true
    }
}
