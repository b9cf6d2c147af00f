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
