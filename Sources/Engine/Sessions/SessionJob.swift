import LogStore

/// What the thread of the sessions is to do.
enum SessionJob: Sendable {
    case save(SavingSession)
    case end(EndingSession)
    /// Ends a session that may be another gateway's.
    case adopt(AdoptedSession)
    case tell(PeerMessage)
}

struct SavingSession: Sendable {
    let save: SessionSave
    let lease: SessionLease
    let completion: @Sendable (SaveOutcome) -> Void
}

struct EndingSession: Sendable {
    let session: StoredSession
    let lease: SessionLease
    let completion: @Sendable () -> Void
}

struct AdoptedSession: Sendable {
    let namespace: LiveNamespace
    let id: String
    /// How often its operations may still be read anew, as they changed while they were being carried out.
    let triesLeft: Int
    let completion: @Sendable () -> Void
}
