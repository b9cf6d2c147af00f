/// What became of a save of a session's onDisconnect operations.
public enum SaveOutcome: Sendable, Equatable {
    /// They are in the database.
    case saved
    /// They are not, and never will be.
    case refused
    /// The session is over: other gateways have executed what it had asked for before, or will. It must be closed, so that
    /// its client asks anew.
    case over
    /// The database went away before it answered: they may be there, or come to be. The session must be ended.
    case unknown
}
