public import Runtime

/// When a connection that hears announcements is opened, when what was announced is looked at, and when that is done although
/// nothing was announced. A value without I/O and without a clock: `AnnouncementLoop` does what it asks for.
///
/// On each new connection LISTEN comes first and the look second: what is committed between the two is seen by both.
public struct ListeningMachine: Sendable {
    /// What to do next.
    public enum Ask: Sendable, Equatable {
        /// Open a connection and listen on it; then `connected` or `failed`.
        case connect
        /// Look at what may have been announced unheard; then `looked` or `failed`. `isNew`: for the first time on this
        /// connection, which may be to another database than the one before.
        case look(isNew: Bool)
        /// Wait for announcements, at most so long; `failed` where the connection is lost.
        case listen(milliseconds: Milliseconds)
        /// Wait without a connection; then `paused`.
        case pause(milliseconds: Milliseconds)
    }

    private enum State {
        case away
        case pausing(milliseconds: Milliseconds)
        case connected
        /// `announcedAt`: before that no look begins for an announcement.
        case listening(lookAt: Int64, announcedAt: Int64)
    }

    /// An announced look comes no sooner than this after the start of the look before it.
    static let spacingMilliseconds: Milliseconds = 50

    private let pollMilliseconds: Milliseconds
    private var backoff: Backoff
    private var state = State.away
    private var wantsLook = false

    /// - Parameters:
    ///   - pollMilliseconds: how often to look although nothing was announced.
    ///   - backoff: the pauses between tries to connect.
    public init(pollMilliseconds: Milliseconds, backoff: Backoff) {
        self.pollMilliseconds = pollMilliseconds
        self.backoff = backoff
    }

    /// What to do next.
    ///
    /// - Parameter now: a monotonic clock, in milliseconds.
    public func next(at now: Int64) -> Ask {
        switch state {
        case .away: .connect
        case .pausing(let milliseconds): .pause(milliseconds: milliseconds)
        case .connected: .look(isNew: true)
        case .listening(let lookAt, let announcedAt):
            if wantsLook {
                now >= min(lookAt, announcedAt)
                    ? .look(isNew: false) : .listen(milliseconds: min(lookAt, announcedAt) - now)
            } else {
                now >= lookAt ? .look(isNew: false) : .listen(milliseconds: lookAt - now)
            }
        }
    }

    /// A connection is open and listens.
    public mutating func connected() { state = .connected }

    /// A look has succeeded. Announcements cause a look every `spacingMilliseconds` at most, and take a quarter of the time: every role that
    /// can connect can send them.
    ///
    /// - Parameters:
    ///   - start: when it began.
    ///   - end: when it ended.
    public mutating func looked(startingAt start: Int64, endingAt end: Int64) {
        if case .connected = state { backoff.reset() }
        wantsLook = false
        let spacing = max(Self.spacingMilliseconds, 4 * (end - start))
        state = .listening(lookAt: start + pollMilliseconds, announcedAt: start + spacing)
    }

    /// Something was announced that a look has to find out more about.
    public mutating func lookSoon() { wantsLook = true }

    /// The connection is lost, or could not be opened, or a look on it has failed: it is given up.
    public mutating func failed() {
        wantsLook = false
        state = .pausing(milliseconds: backoff.nextMilliseconds())
    }

    /// The pause is over.
    public mutating func paused() { if case .pausing = state { state = .away } }
}
