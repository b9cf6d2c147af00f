/// Decides what follows from an attempt to execute a session's onDisconnect operations. Pure.
enum ExecutionMachine {
    /// Whose operations they are.
    enum Kind: Equatable {
        /// A session of this gateway has ended.
        case ended
        /// The client of a session, on whichever gateway, has said that it is over. The operations may still be read anew so
        /// often, as they may change while they are being executed.
        case takenOver(triesLeft: Int)
    }

    /// What is done next.
    enum Next: Equatable {
        /// Nothing is left to be done for the session.
        case done
        /// Try again with the next sign of life: nothing was executed, or it cannot be executed twice.
        case retry
        /// Look whether the session has a row again.
        case lookAgain(triesLeft: Int)
    }

    static func next(after outcome: WriteOutcome, of kind: Kind) -> Next {
        var failure: EngineError?
        if case .failed(let error) = outcome { failure = error }
        switch kind {
        case .ended:
            guard let failure, failure != .stopping else { return .done }
            return .retry
        case .takenOver(let triesLeft):
            // Executed, or saved anew meanwhile: looking again tells.
            return failure == nil ? .lookAgain(triesLeft: triesLeft - 1) : .done
        }
    }
}
