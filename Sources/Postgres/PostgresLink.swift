import CPostgres
import Glibc
import Synchronization

/// Owns a `PGconn` and does its I/O. Never blocks in libpq, but always in poll(2) with a deadline.
///
/// Every failure here closes the connection, because the rest of an interrupted exchange is useless.
final class PostgresLink {
    private(set) var connection: OpaquePointer
    /// False once closed. `connection` is then dangling and must not be used.
    private(set) var isOpen = true
    /// Whether the server has reported that it accepts no writes. The connection is closed after the call in progress.
    private(set) var isReadOnly = false
    private let interrupt: Interrupt
    /// The monotonic millisecond at which a byte last moved in either direction, or there was none to move.
    private var movedAt: Int64 = 0
    // `notices` is freed after `connection`, whose notice receiver points to it.
    private let notices: NoticeReader

    /// Takes ownership of a connection that libpq is opening.
    init(_ connection: OpaquePointer, interrupt: Interrupt) {
        self.connection = connection
        self.interrupt = interrupt
        notices = NoticeReader()
        PQsetNoticeReceiver(connection, readNotice, Unmanaged.passUnretained(notices).toOpaque())
    }

    deinit {
        close()
    }

    func close() {
        guard isOpen else { return }
        isOpen = false
        PQfinish(connection)
    }

    var noticeCount: Int { notices.count }

    var isLost: Bool { !isOpen || PQstatus(connection) == CONNECTION_BAD }

    /// Restarts the period of silence.
    func noteMoved() { movedAt = Deadline.nowMilliseconds }

    /// Records that the server has sent something.
    func noteHeard() {
        noteMoved()
        interrupt.noteHeard()
    }

    /// The first line of libpq's last message.
    var message: String {
        PostgresError.firstLine(PQerrorMessage(connection).map { String(cString: $0) })
    }

    /// Closes the connection and returns the error to throw.
    func failure(_ kind: PostgresError.Kind, _ message: String, statement: String? = nil) -> PostgresError {
        close()
        return PostgresError(kind, message, statement: statement)
    }

    /// Returns the error in `result`. Clears the result, and closes the connection if it is lost.
    func failure(_ result: OpaquePointer, _ statement: String?) -> PostgresError {
        let error = PostgresError.from(result: result, isConnectionLost: isLost, statement: statement)
        PQclear(result)
        if error.isConnectionLost {
            close()
        }
        isReadOnly = isReadOnly || error.sqlState == PostgresError.readOnlyState
        return error
    }

    /// Waits until the socket is ready for one of `events`, and returns the events that are ready.
    /// `wake` also ends the wait. The result is then 0, as after the deadline if `isSoft` is true.
    func wait(
        _ events: Int32, until deadline: Deadline, wake: WakeHandle? = nil, isSoft: Bool = false
    ) throws(PostgresError) -> Int32 {
        let socket = PQsocket(connection)
        guard isOpen, socket >= 0 else {
            throw failure(.connectionLost, "the connection is closed")
        }
        return try withUnsafeTemporaryAllocation(of: pollfd.self, capacity: 3) {
            (descriptors) throws(PostgresError) -> Int32 in
            descriptors.initialize(repeating: pollfd(fd: -1, events: Int16(POLLIN), revents: 0))
            descriptors[0] = pollfd(fd: socket, events: Int16(events), revents: 0)
            descriptors[1].fd = interrupt.wake.descriptor
            descriptors[2].fd = wake?.descriptor ?? -1
            while true {
                let timeout = deadline.pollTimeout(movedAt: movedAt)
                let ready = poll(descriptors.baseAddress, 3, timeout)
                if ready < 0 && errno == EINTR {
                    continue
                }
                if ready < 0 {
                    throw failure(.connectionLost, "poll failed: \(systemErrorText(errno))")
                }
                if descriptors[1].revents != 0 || interrupt.isSet {
                    throw failure(.cancelled, "the call was abandoned; the connection is closed")
                }
                if ready == 0 {
                    if isSoft {
                        return 0
                    }
                    throw failure(.timeout, "PostgreSQL did not answer in time; the connection is closed")
                }
                if descriptors[0].revents & Int16(POLLIN) != 0 { noteHeard() }
                if descriptors[0].revents & Int16(POLLOUT) != 0 { noteMoved() }
                if descriptors[2].revents != 0 {
                    wake?.drain()
                    return 0
                }
                return Int32(descriptors[0].revents)
            }
        }
    }

    /// Sends the data that libpq has buffered, and reads incoming data meanwhile. A server that cannot send its answers
    /// stops reading, and two sides that only write would wait for each other forever.
    func flush(until deadline: Deadline) throws(PostgresError) {
        while isOpen {
            let pending = PQflush(connection)
            if pending == 0 {
                return
            }
            // After a failed send, the server's explanation may still be unread: `nextResult` reads it.
            if pending < 0 {
                return
            }
            let ready = try wait(POLLIN | POLLOUT, until: deadline)
            if ready & (POLLIN | POLLHUP | POLLERR) != 0 && PQconsumeInput(connection) == 0 {
                return
            }
        }
    }

    /// Waits until a result can be read without waiting. Returns false if `wake` was called.
    /// Buffered data is sent meanwhile.
    func awaitResult(until deadline: Deadline, wake: WakeHandle? = nil) throws(PostgresError) -> Bool {
        guard isOpen else { throw failure(.connectionLost, "the connection is closed") }
        while PQisBusy(connection) == 1 {
            let pending = PQflush(connection)
            let events = pending == 1 ? POLLIN | POLLOUT : POLLIN
            let ready = try wait(events, until: deadline, wake: wake)
            if ready == 0 { return false }
            // On failure PQgetResult returns at once, with the error as a result.
            if ready & ~POLLOUT != 0 && PQconsumeInput(connection) == 0 {
                break
            }
        }
        return true
    }

    /// Returns the next result, or nil at the end of a statement's results. The caller owns it.
    ///
    /// - Throws: also `localCommit`, if the server has reported a local commit before the result.
    func nextResult(until deadline: Deadline) throws(PostgresError) -> OpaquePointer? {
        _ = try awaitResult(until: deadline)
        let result = PQgetResult(connection)
        guard notices.commitWasLocal else { return result }
        PQclear(result)
        throw failure(.localCommit, PostgresError.localCommitMessage)
    }
}

/// Lets another thread end the owner's waits.
final class Interrupt: Sendable {
    let wake: WakeHandle
    private let flag = Atomic(false)
    /// The monotonic millisecond at which the server last sent something.
    private let heardAt = Atomic<Int64>(0)

    init() throws(PostgresError) {
        wake = try WakeHandle()
    }

    var lastHeardMilliseconds: Int64 { heardAt.load(ordering: .relaxed) }

    func noteHeard() { heardAt.store(Deadline.nowMilliseconds, ordering: .relaxed) }

    /// Whether the connection was abandoned, which is permanent. Later waits check it.
    var isSet: Bool { flag.load(ordering: .acquiring) }

    func set() {
        flag.store(true, ordering: .releasing)
        wake.wake()
    }
}

/// Reads the server's notices. Without a receiver, libpq would print them to standard error.
private final class NoticeReader {
    var count = 0
    /// Whether a commit is on this server's disk but perhaps on no standby's, because the wait for them was cancelled
    /// by an administrator or by the end of the session.
    var commitWasLocal = false
}

/// The server's function that waits for standbys after a commit. Its only warnings report that it has stopped waiting.
private let standbyWait = "SyncRepWaitForLSN"

/// Called by libpq on the connection's own thread, during calls that this file makes.
private func readNotice(_ context: UnsafeMutableRawPointer?, _ result: OpaquePointer?) {
    guard let context, let result else { return }
    let reader = Unmanaged<NoticeReader>.fromOpaque(context).takeUnretainedValue()
    reader.count += 1
    if let function = pathmirror_pq_source_function(result), String(cString: function) == standbyWait {
        reader.commitWasLocal = true
    }
}
