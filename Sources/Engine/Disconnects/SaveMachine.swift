import LogStore

/// Decides the outcome of saves of onDisconnect operations, which one connection sends one after another.
///
/// A save whose answer was lost may still take effect until another connection has taken the lease over. So the machine
/// reports no save as refused before that, or while parts of it may have been sent.
///
/// A state machine without I/O.
struct SaveMachine {
    /// The machine's data about a save.
    struct Save: Equatable {
        let number: Int64
        /// The lease under which the session of the save began.
        let lease: LeaseNumber
    }

    /// The next step for a save.
    enum Verdict: Equatable {
        case send
        case answer(SaveOutcome)
    }

    /// The save whose answer was lost, and since when, in monotonic milliseconds.
    private(set) var unanswered: (save: Save, since: Int64)?
    /// The time until which saves are refused without an attempt while the database is unavailable.
    private var nextTry: Int64 = 0
    private let patienceMilliseconds: Int64
    private static let retryMilliseconds: Int64 = 1_000

    /// - Parameter patienceMilliseconds: the time that a client waits for the outcome of its save.
    init(patienceMilliseconds: Int64) { self.patienceMilliseconds = patienceMilliseconds }

    /// Whether a save is refused without an attempt. While the database is unavailable, only one save per second checks
    /// whether it still is.
    func refusesAtOnce(isDatabaseAway: Bool, now: Int64) -> Bool { isDatabaseAway && now < nextTry }

    /// Records that no connection under a lease could be had. Nothing of a save was sent.
    mutating func couldNotBegin(now: Int64) { nextTry = now + Self.retryMilliseconds }

    /// Decides whether a save whose turn has come is sent.
    func begin(_ save: Save, under current: LeaseNumber) -> Verdict {
        save.lease == current ? .send : .answer(.over)
    }

    /// Records PostgreSQL's answer to a save.
    func answered(_ result: LogConnection.SaveResult) -> (outcome: SaveOutcome, isLeaseLost: Bool) {
        switch result {
        case .saved: (.saved, false)
        case .ended: (.over, false)
        case .lost: (.over, true)
        }
    }

    /// Records that a save was sent and failed.
    ///
    /// - Parameter wasRefused: whether PostgreSQL reported the error, and the connection remains usable.
    /// - Returns: the outcome for the client; nil if it is not known yet.
    mutating func failed(_ save: Save, wasRefused: Bool, now: Int64) -> SaveOutcome? {
        if wasRefused { return .refused }
        unanswered = (save, now)
        return nil
    }

    /// Returns the next step for the unanswered save now that it can no longer take effect late; nil if no save is
    /// unanswered.
    ///
    /// - Returns: `.send` if the database has to be queried for the session's row.
    func settling(under current: LeaseNumber) -> Verdict? {
        unanswered.map { begin($0.save, under: current) }
    }

    /// - Parameter number: the number of the save in the session's row; nil if there is no row: either the session's
    ///   first save never arrived, or other gateways have executed the operations since.
    mutating func settled(number: Int64?) -> SaveOutcome {
        guard let (save, _) = unanswered else { return .over }
        unanswered = nil
        guard let number else { return .over }
        return number == save.number ? .saved : .refused
    }

    /// Records that the lease of the unanswered save has expired.
    mutating func settledAsOver() { unanswered = nil }

    /// Whether the client of the unanswered save has waited long enough. It then receives `.unknown`.
    mutating func givesUp(now: Int64) -> Bool {
        guard let (_, since) = unanswered, now - since > patienceMilliseconds else { return false }
        unanswered = nil
        return true
    }
}
