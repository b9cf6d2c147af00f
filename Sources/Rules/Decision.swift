public import Tree

/// What the rules say to a read or a write.
public enum Decision: Sendable, Equatable {
    case allowed
    case denied(Denial)

    public var isAllowed: Bool { self == .allowed }
}

/// Why something was refused. For logs, tests and `explain`; clients are never told (reference: security-rules 14).
public struct Denial: Sendable, Equatable {
    public enum Reason: Sendable, Equatable {
        /// No `.read` from the root to the path was true.
        case noReadAllowed
        /// No `.write` from the root to the path was true.
        case noWriteAllowed
        /// A `.validate` was false.
        case invalid
        /// A `.validate` had no value: a type error, or too many steps.
        case failed
    }

    public let reason: Reason
    /// The place that was refused: for a failed validation where it failed, else the place asked for.
    public let path: Path
    /// The rule that refused; nil when none spoke.
    public let rule: RuleID?
}

/// Names a rule within its `RuleSet`.
public struct RuleID: Sendable, Hashable {
    let index: Int32
}
