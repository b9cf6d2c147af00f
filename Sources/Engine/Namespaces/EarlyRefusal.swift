/// How one who waits for a namespace is answered before its tree is read, where the stored rules refuse them whatever is stored.
/// Called on a loader's thread, without locks.
struct EarlyRefusal: Sendable {
    /// Answers the one who waits, and returns true, if the rules alone refuse what was asked for; else does nothing.
    ///
    /// - Parameter seq: The entry at which these rules hold.
    let answers: @Sendable (_ rules: RulesVersion, _ seq: Int64) -> Bool
}
