public import Runtime

/// The delegate of an `AnnouncementLoop`. All calls are on the loop's thread.
public protocol AnnouncementListener: AnyObject {
    /// Whether the loop must end.
    var stopsNow: Bool { get }
    /// Opens a connection that listens. Announcements made after this call returns are not missed.
    func connect() throws -> LogConnection
    /// Reads the changes whose announcements may have been missed.
    ///
    /// - Parameter isNew: whether this is the first look on the connection.
    func look(_ connection: LogConnection, isNew: Bool) throws
    /// Waits for announcements and handles them. Returns after `milliseconds` at the latest, or when the loop must end.
    /// Returns true if a look must find out more about an announcement.
    func listen(_ connection: LogConnection, milliseconds: Milliseconds) throws -> Bool
    /// Reports that the connection was lost or could not be opened, or that a look failed.
    ///
    /// - Parameter askedAt: the start of the call that failed, in monotonic milliseconds.
    func failed(_ error: any Error, askedAt: Int64)
    /// Closes a connection that `connect` opened.
    func close(_ connection: LogConnection)
    /// Waits for `milliseconds`, or until the loop must end.
    func pause(milliseconds: Milliseconds)
}

/// The loop that listens to announcements: it opens a connection, looks, waits for announcements, and looks again at
/// intervals, because announcements may be lost. When the connection is lost, it starts over.
/// `ListeningMachine` decides the order.
public struct AnnouncementLoop {
    private var machine: ListeningMachine
    /// The start of the call in progress, in monotonic milliseconds.
    private var askedAt: Int64 = 0

    /// - Parameter machine: determines how often to look, and how long to pause after failures.
    public init(_ machine: ListeningMachine) { self.machine = machine }

    /// Runs until `stopsNow` is true.
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

/// Decides when to open a connection for announcements and when to look, with or without an announcement. A value
/// without I/O and clock: `AnnouncementLoop` executes its decisions.
///
/// On each new connection LISTEN comes first and the look second. A commit between the two is seen by both.
public struct ListeningMachine: Sendable {
    /// The next action.
    public enum Ask: Sendable, Equatable {
        /// Open a connection and listen on it; then call `connected` or `failed`.
        case connect
        /// Look for changes whose announcements may have been missed; then call `looked` or `failed`. `isNew` is true
        /// for the first look on a connection, which may be to another database than the previous connection.
        case look(isNew: Bool)
        /// Wait for announcements, at most `milliseconds`; call `failed` if the connection is lost.
        case listen(milliseconds: Milliseconds)
        /// Wait without a connection; then call `paused`.
        case pause(milliseconds: Milliseconds)
    }

    private enum State {
        case away
        case pausing(milliseconds: Milliseconds)
        case connected
        /// `announcedAt` is the earliest time of a look that an announcement causes.
        case listening(lookAt: Int64, announcedAt: Int64)
    }

    /// The minimum time between the starts of two looks if an announcement causes the second.
    static let spacingMilliseconds: Milliseconds = 50

    private let pollMilliseconds: Milliseconds
    private var backoff: Backoff
    private var state = State.away
    private var wantsLook = false

    /// - Parameters:
    ///   - pollMilliseconds: the interval between looks without an announcement.
    ///   - backoff: the pauses between attempts to connect.
    public init(pollMilliseconds: Milliseconds, backoff: Backoff) {
        self.pollMilliseconds = pollMilliseconds
        self.backoff = backoff
    }

    /// Returns the next action.
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

    /// Reports that a connection is open and listens.
    public mutating func connected() { state = .connected }

    /// Reports that a look has succeeded. Announcements cause a look every `spacingMilliseconds` at most, and looks
    /// take at most a quarter of the time, because every role that can connect can send announcements.
    ///
    /// - Parameters:
    ///   - start: when the look began.
    ///   - end: when the look ended.
    public mutating func looked(startingAt start: Int64, endingAt end: Int64) {
        if case .connected = state { backoff.reset() }
        wantsLook = false
        let spacing = max(Self.spacingMilliseconds, 4 * (end - start))
        state = .listening(lookAt: start + pollMilliseconds, announcedAt: start + spacing)
    }

    /// Reports an announcement about which a look must find out more.
    public mutating func lookSoon() { wantsLook = true }

    /// Reports that the connection is lost or could not be opened, or that a look has failed. The caller gives up the
    /// connection.
    public mutating func failed() {
        wantsLook = false
        state = .pausing(milliseconds: backoff.nextMilliseconds())
    }

    /// Reports the end of the pause.
    public mutating func paused() { if case .pausing = state { state = .away } }
}
