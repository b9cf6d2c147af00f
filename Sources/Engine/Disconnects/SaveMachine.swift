import LogStore

/// Decides what became of saves of onDisconnect operations, which one connection sends one after another.
///
/// A save whose answer was lost may still take effect until another connection has taken the lease over. So nobody is told
/// that a save was refused before that, or while something of it may have been sent.
///
/// A state machine without I/O.
struct SaveMachine {
    /// What the machine knows of a save.
    struct Save: Equatable {
        let number: Int64
        /// The lease under which its session began.
        let lease: LeaseNumber
    }

    /// What happens to a save next.
    enum Verdict: Equatable {
        case send
        case answer(SaveOutcome)
    }

    /// The save whose answer was lost, and since when, in monotonic milliseconds.
    private(set) var unanswered: (save: Save, since: Int64)?
    /// Until then saves are refused without a try while the database is away.
    private var nextTry: Int64 = 0
    private let patienceMilliseconds: Int64
    private static let retryMilliseconds: Int64 = 1_000

    /// - Parameter patienceMilliseconds: how long a client waits to be told what became of its save.
    init(patienceMilliseconds: Int64) { self.patienceMilliseconds = patienceMilliseconds }

    /// Whether a save is refused before anything is done for it: while the database is away only one save a second finds
    /// out whether it still is.
    func refusesAtOnce(isDatabaseAway: Bool, now: Int64) -> Bool { isDatabaseAway && now < nextTry }

    /// There was no connection under a lease. Nothing of a save was sent.
    mutating func couldNotBegin(now: Int64) { nextTry = now + Self.retryMilliseconds }

    /// A save's turn has come.
    func begin(_ save: Save, under current: LeaseNumber) -> Verdict {
        save.lease == current ? .send : .answer(.over)
    }

    /// PostgreSQL has answered a save.
    func answered(_ result: LogConnection.SaveResult) -> (outcome: SaveOutcome, isLeaseLost: Bool) {
        switch result {
        case .saved: (.saved, false)
        case .ended: (.over, false)
        case .lost: (.over, true)
        }
    }

    /// A save was sent and has failed.
    ///
    /// - Parameter wasRefused: PostgreSQL has said so, and the connection goes on.
    /// - Returns: what its client is told; nil where nobody knows yet what became of it.
    mutating func failed(_ save: Save, wasRefused: Bool, now: Int64) -> SaveOutcome? {
        if wasRefused { return .refused }
        unanswered = (save, now)
        return nil
    }

    /// The save that is to be looked for now that it cannot come later any more; nil where none is unanswered.
    ///
    /// - Returns: `.send` where the database has to be asked for the session's row.
    func settling(under current: LeaseNumber) -> Verdict? {
        unanswered.map { begin($0.save, under: current) }
    }

    /// - Parameter number: the number of the save that the session's row is of; nil where there is no row: its first save
    ///   never came, or others have executed the operations since.
    mutating func settled(number: Int64?) -> SaveOutcome {
        guard let (save, _) = unanswered else { return .over }
        unanswered = nil
        guard let number else { return .over }
        return number == save.number ? .saved : .refused
    }

    /// The unanswered save is of a lease that has expired.
    mutating func settledAsOver() { unanswered = nil }

    /// Whether the client of the unanswered save has waited long enough. It is then told `.unknown`.
    mutating func givesUp(now: Int64) -> Bool {
        guard let (_, since) = unanswered, now - since > patienceMilliseconds else { return false }
        unanswered = nil
        return true
    }
}
