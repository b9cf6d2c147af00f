import Runtime

/// Decides when the log says that trees take more memory than their budget: once for each time that they cross it. Pure.
struct MemoryNotice: Sendable {
    /// Since when trees have taken more, without a break, in monotonic milliseconds.
    private var overSince: Milliseconds?
    /// Whether the log line was written and trees have not shrunk far enough since.
    private(set) var isGiven = false

    /// Milliseconds for which trees may take too much without a log line: the gateway may still find namespaces to evict.
    static let patience: Milliseconds = 2_000
    /// Trees have shrunk far enough once they take an eighth less than the budget. The gateway keeps trees in pages just below
    /// the budget, and those cross it again and again.
    static let margin = 8

    /// Records what trees take now.
    ///
    /// - Parameter now: Monotonic milliseconds.
    /// - Returns: Whether the log line is due.
    mutating func isDue(bytes: Int, budget: Int, now: Milliseconds) -> Bool {
        guard bytes > budget else {
            overSince = nil
            if bytes <= budget - budget / Self.margin { isGiven = false }
            return false
        }
        let since = overSince ?? now
        overSince = since
        guard !isGiven, now - since >= Self.patience else { return false }
        isGiven = true
        return true
    }
}
