/// Answers a request that waits for a namespace before the tree is read, if the stored rules refuse it whatever the tree holds.
/// Called on a loader's thread, without locks.
struct EarlyRefusal: Sendable {
    /// Answers the request and returns true if the rules alone refuse it; returns false otherwise.
    let answers: @Sendable (_ rules: RulesVersion) -> Bool
}
