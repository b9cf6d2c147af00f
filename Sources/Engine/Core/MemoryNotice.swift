import Runtime

/// Decides when operators are told that trees take more memory than they may: once for each time that they come to take more.
/// Pure.
struct MemoryNotice: Sendable {
    /// Since when trees have taken more, without a break, in monotonic milliseconds.
    private var overSince: Milliseconds?
    /// Operators were told, and trees have not come back far enough since.
    private(set) var isGiven = false

    /// Trees that take too much for less than this time are not worth a word: there may be something that can be let go.
    static let patience: Milliseconds = 2_000
    /// Trees have come back once they take less than the budget by this part of it. Trees in pages are kept just below the
    /// budget, and cross it again and again.
    static let margin = 8

    /// Takes in what trees take now.
    ///
    /// - Parameter now: Monotonic milliseconds.
    /// - Returns: Whether operators are to be told.
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
