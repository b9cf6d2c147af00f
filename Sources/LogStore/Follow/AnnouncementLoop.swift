public import Runtime

/// Who is told by an `AnnouncementLoop`. Belongs to the loop's thread.
public protocol AnnouncementListener: AnyObject {
    /// Whether the loop is to end.
    var stopsNow: Bool { get }
    /// Opens the connection that looks, and makes sure that it is heard from now on what is announced.
    func connect() throws -> LogConnection
    /// Looks at what may have been announced unheard. `isNew`: for the first time on this connection.
    func look(_ connection: LogConnection, isNew: Bool) throws
    /// Waits until something is announced, for so long or until the loop is to end, and attends to it. True where a look has to find
    /// out more about it.
    func listen(_ connection: LogConnection, milliseconds: Milliseconds) throws -> Bool
    /// The connection was lost, or could not be opened, or a look has failed.
    ///
    /// - Parameter askedAt: when the question was asked that had no answer, in monotonic milliseconds.
    func failed(_ error: any Error, askedAt: Int64)
    /// Closes a connection of `connect`.
    func close(_ connection: LogConnection)
    /// Waits; ends early when the loop is to end.
    func pause(milliseconds: Milliseconds)
}

/// The one loop that listens to announcements: it opens a connection, looks, waits for announcements, looks again
/// every so often, as announcements may be lost, and begins anew when the connection is lost. `ListeningMachine` says what
/// comes when.
public struct AnnouncementLoop {
    private var machine: ListeningMachine
    /// When the question was asked that waits for an answer.
    private var askedAt: Int64 = 0

    /// - Parameter machine: how often to look, and how long to pause after failures.
    public init(_ machine: ListeningMachine) { self.machine = machine }

    /// Runs until the listener says that it is to end.
    public mutating func run(_ listener: some AnnouncementListener) {
        var connection: LogConnection?
        while !listener.stopsNow {
            do {
                try step(listener, &connection)
            } catch {
                listener.failed(error, askedAt: askedAt)
                machine.failed()
                if let lost = connection { listener.close(lost) }
                connection = nil
            }
        }
        if let connection { listener.close(connection) }
    }

    private mutating func step(_ listener: some AnnouncementListener, _ connection: inout LogConnection?) throws {
        let now = Clock.monotonicMilliseconds
        switch machine.next(at: now) {
        case .connect:
            askedAt = now
            connection = try listener.connect()
            machine.connected()
        case .look(let isNew):
            guard let connection else { return machine.failed() }
            askedAt = now
            try listener.look(connection, isNew: isNew)
            machine.looked(startingAt: now, endingAt: Clock.monotonicMilliseconds)
        case .listen(let milliseconds):
            guard let connection else { return machine.failed() }
            askedAt = now
            if try listener.listen(connection, milliseconds: milliseconds) { machine.lookSoon() }
        case .pause(let milliseconds):
            listener.pause(milliseconds: milliseconds)
            machine.paused()
        }
    }
}

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
