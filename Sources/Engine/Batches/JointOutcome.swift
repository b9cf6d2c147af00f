/// What became of a transaction with batches of several namespaces, and what that is to each of them. Pure.
///
/// The transaction is a first try, which binds nobody: each member's machine has said that its batch is to be sent, and goes on from
/// there by itself.
enum JointOutcome: Hashable, Sendable {
    case committed
    /// It was rolled back for certain, whoever was the reason: a head that had moved, a lock, anything else.
    case cameToNothing
    /// The connection was lost, or the server has committed alone. The batches are in the log or not, all or none; each is searched
    /// for by its own id.
    case unknown

    /// How a member goes on.
    enum Continuation: Hashable, Sendable {
        /// Its machine hears this of the batch that it had sent.
        case event(CommitMachine.Event)
        /// As if there had been no such transaction: alone, and evaluated anew. Who was the reason finds it out by itself.
        case alone
    }

    func continuation(_ circumstances: CommitMachine.Circumstances) -> Continuation {
        switch self {
        case .committed: .event(.committed)
        case .cameToNothing: .alone
        case .unknown: .event(.failed(.connectionLost, circumstances))
        }
    }
}
