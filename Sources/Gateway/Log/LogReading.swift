import Engine
import HTTPServer
import Runtime

/// The services that a reader of the log needs from its loop.
protocol LogReadingHost: AnyObject {
    /// Reads the slice after a position and passes it to the reader's `received`.
    func read(_ reading: any LogReading, at position: LogLinePosition)
    /// Calls a reader's `woke` once the namespace has reached an entry.
    func awaitEntry(_ seq: Int64, for reading: any LogReading)
}

/// A client that receives the log: a stream, or one waiting request. Belongs to its loop's thread.
protocol LogReading: AnyObject {
    var exchange: HTTPExchange { get }
    var identity: Identity { get }
    var namespace: LiveNamespace { get }
    var view: LogView { get }
    /// Receives the requested slice or the error.
    func received(_ result: Result<LogSlice, LogReadError>)
    /// Notifies that the log may have more entries.
    func woke()
    /// Notifies that the client has read all queued bytes.
    func drained()
    /// Sends a keep-alive if the stream is idle, and checks for new entries.
    func keepAlive()
    /// Ends, because the client's credential is no longer valid.
    func revoke()
    /// Ends, because its time is over or the gateway stops.
    func end()
}

/// One client's stream of the log, as server-sent events.
///
/// It reads one slice at a time, and the next one only after the client has read most of the previous one. So a slow
/// client costs the memory of two slices, and the stream never has to drop events.
final class LogStream: LogReading {
    let exchange: HTTPExchange
    let identity: Identity
    let namespace: LiveNamespace
    let view: LogView
    /// The cursor of the client's last answer.
    private let cursor: Int64?
    private let bufferBytes: Int
    private unowned let host: any LogReadingHost
    private var pump: LogPump

    /// - Parameters:
    ///   - position: the position at which the stream begins.
    ///   - bufferBytes: maximum number of unread bytes of the client at which the next slice is read.
    init(
        _ exchange: HTTPExchange, _ identity: Identity, _ namespace: LiveNamespace, _ view: LogView, cursor: Int64?,
        at position: LogLinePosition, bufferBytes: Int, _ host: any LogReadingHost
    ) {
        self.exchange = exchange
        self.identity = identity
        self.namespace = namespace
        self.view = view
        self.cursor = cursor
        self.bufferBytes = bufferBytes
        self.host = host
        pump = LogPump(at: position)
    }

    func received(_ result: Result<LogSlice, LogReadError>) {
        // The client reconnects and gets the error then.
        guard case .success(let slice) = result else { return exchange.close() }
        exchange.send(SharedBytes(LogFrames.events(slice, cursor: StreamCursor.next(after: cursor))))
        follow(pump.received(to: slice.end, isAtEnd: slice.isAtEnd, isFull: isFull))
    }

    private var isFull: Bool { exchange.queuedOutputBytes > bufferBytes }

    private func follow(_ ask: LogPump.Ask) {
        switch ask {
        case .read(let position): host.read(self, at: position)
        case .awaitEntry(let seq): host.awaitEntry(seq, for: self)
        case .nothing: break
        }
    }

    func woke() { follow(pump.woke(isFull: isFull)) }

    func drained() { follow(pump.drained()) }

    func keepAlive() {
        guard pump.isAtEnd else { return }
        if exchange.queuedOutputBytes == 0 { exchange.send(SharedBytes(LogFrames.comment)) }
        // The awaited entry may belong to a lost history, or the wait has timed out.
        woke()
    }

    func revoke() {
        exchange.dropQueuedOutput()
        exchange.close()
    }

    func end() { exchange.close() }
}

/// A request that waits for the next lines of the log.
final class LogPoll: LogReading {
    let exchange: HTTPExchange
    let identity: Identity
    let namespace: LiveNamespace
    let view: LogView
    private let answers: DurableAnswers
    private unowned let host: any LogReadingHost
    private var pump: LogPump
    /// The last slice, which had no lines.
    private var seen: LogSlice?

    /// - Parameter position: the position at which the request begins.
    init(
        _ exchange: HTTPExchange, _ identity: Identity, _ namespace: LiveNamespace, _ view: LogView,
        at position: LogLinePosition, _ answers: DurableAnswers, _ host: any LogReadingHost
    ) {
        self.exchange = exchange
        self.identity = identity
        self.namespace = namespace
        self.view = view
        self.answers = answers
        self.host = host
        pump = LogPump(at: position)
    }

    func received(_ result: Result<LogSlice, LogReadError>) {
        switch result {
        case .failure(let error): answers.refuse(error, exchange)
        case .success(let slice) where slice.lines.isEmpty:
            seen = slice
            follow(pump.received(to: slice.end, isAtEnd: slice.isAtEnd, isFull: false))
        case .success(let slice): answers.respond(slice, exchange)
        }
    }

    private func follow(_ ask: LogPump.Ask) {
        switch ask {
        case .read(let position): host.read(self, at: position)
        case .awaitEntry(let seq): host.awaitEntry(seq, for: self)
        case .nothing: break
        }
    }

    func woke() { follow(pump.woke(isFull: false)) }
    func drained() {}
    func keepAlive() { woke() }
    func revoke() { answers.refuseIdentity(exchange) }

    /// Answers that no line came in time.
    func end() {
        guard let seen else { return answers.refuse(.engine(.unavailable("the log was not read in time")), exchange) }
        answers.respond(nothingAfter: seen, exchange)
    }
}

/// Decides when a reader of the log gets its next slice: after it has read the previous one, and once there is one. A
/// value without I/O.
struct LogPump: Sendable, Equatable {
    /// The next action.
    enum Ask: Sendable, Equatable {
        /// Read the slice after the position; then call `received`.
        case read(LogLinePosition)
        /// Call `woke` once the log has that entry.
        case awaitEntry(Int64)
        /// Wait for the pending action, or for the client.
        case nothing
    }

    private enum State: Equatable {
        case reading
        /// The log has no more entries for now.
        case atEnd
        /// The client has not read its queued bytes.
        case full
    }

    /// The end of the last slice.
    private var position: LogLinePosition
    private var state = State.reading

    /// Creates the state of a new reader, whose first slice is being read.
    init(at position: LogLinePosition) { self.position = position }

    /// Whether the log has no more entries for now, as far as this reader knows.
    var isAtEnd: Bool { state == .atEnd }

    /// Handles the arrival of a slice.
    ///
    /// - Parameters:
    ///   - end: the position after the slice.
    ///   - isAtEnd: whether the log ended there.
    ///   - isFull: whether the client has too many unread bytes, including the slice, to read the next one.
    mutating func received(to end: LogLinePosition, isAtEnd: Bool, isFull: Bool) -> Ask {
        guard state == .reading else { return .nothing }
        position = end
        if isAtEnd {
            state = .atEnd
            return .awaitEntry(end.seq + 1)
        }
        return resume(isFull: isFull)
    }

    /// Handles a wake-up: the log may have the awaited entry, or a periodic check is due.
    mutating func woke(isFull: Bool) -> Ask {
        guard state == .atEnd else { return .nothing }
        return resume(isFull: isFull)
    }

    /// Handles that the client has read all queued bytes.
    mutating func drained() -> Ask {
        guard state == .full else { return .nothing }
        return resume(isFull: false)
    }

    private mutating func resume(isFull: Bool) -> Ask {
        guard !isFull else {
            state = .full
            return .nothing
        }
        state = .reading
        return .read(position)
    }
}
