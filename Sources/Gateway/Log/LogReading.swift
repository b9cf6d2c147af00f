import Engine
import HTTPServer
import Runtime

/// What a reading of the log needs of the loop that it is on.
protocol LogReadingHost: AnyObject {
    /// Reads the slice after a place and passes it to the reading's `received`.
    func read(_ reading: any LogReading, at place: LogPlace)
    /// Says `woke` to a reading once the namespace has come to an entry.
    func awaitEntry(_ seq: Int64, for reading: any LogReading)
}

/// A client that is being given the log: a stream, or one request that waits. Belongs to its loop's thread.
protocol LogReading: AnyObject {
    var exchange: HTTPExchange { get }
    var identity: Identity { get }
    var namespace: LiveNamespace { get }
    var view: LogView { get }
    /// A slice that was asked for is here, or can't be had.
    func received(_ result: Result<LogSlice, LogReadError>)
    /// The log may have more.
    func woke()
    /// The client has taken all that waited for it.
    func drained()
    /// Says that the connection is alive, where nothing else does, and looks whether there is more after all.
    func keepAlive()
    /// The client's credential has ended.
    func revoke()
    /// Its time is over, or the gateway is about to stop.
    func end()
}

/// One client's stream of the log, as server-sent events.
///
/// It is read a slice at a time, and the next one only when the client has taken most of the last: a slow client costs the memory
/// of two slices, and as it reads no faster than it takes, it is never behind what it is sent.
final class LogStream: LogReading {
    let exchange: HTTPExchange
    let identity: Identity
    let namespace: LiveNamespace
    let view: LogView
    /// The one that the client had from its last answer.
    private let cursor: Int64?
    private let bufferBytes: Int
    private unowned let host: any LogReadingHost
    private var pump: LogPump

    /// - Parameters:
    ///   - place: where it begins.
    ///   - bufferBytes: how much may wait for the client when more is read.
    init(
        _ exchange: HTTPExchange, _ identity: Identity, _ namespace: LiveNamespace, _ view: LogView, cursor: Int64?,
        at place: LogPlace, bufferBytes: Int, _ host: any LogReadingHost
    ) {
        self.exchange = exchange
        self.identity = identity
        self.namespace = namespace
        self.view = view
        self.cursor = cursor
        self.bufferBytes = bufferBytes
        self.host = host
        pump = LogPump(at: place)
    }

    func received(_ result: Result<LogSlice, LogReadError>) {
        // The client comes back, and is told what is wrong.
        guard case .success(let slice) = result else { return exchange.close() }
        exchange.send(SharedBytes(LogFrames.events(slice, cursor: StreamCursor.next(after: cursor))))
        follow(pump.received(to: slice.end, isAtEnd: slice.isAtEnd, isFull: isFull))
    }

    private var isFull: Bool { exchange.queuedOutputBytes > bufferBytes }

    private func follow(_ ask: LogPump.Ask) {
        switch ask {
        case .read(let place): host.read(self, at: place)
        case .awaitEntry(let seq): host.awaitEntry(seq, for: self)
        case .nothing: break
        }
    }

    func woke() { follow(pump.woke(isFull: isFull)) }

    func drained() { follow(pump.drained()) }

    func keepAlive() {
        guard pump.isAtEnd else { return }
        if exchange.queuedOutputBytes == 0 { exchange.send(SharedBytes(LogFrames.comment)) }
        // What was waited for may be of a history that is no more, or was waited for too long.
        woke()
    }

    func revoke() {
        exchange.dropQueuedOutput()
        exchange.close()
    }

    func end() { exchange.close() }
}

/// One request that waits until the log has something for it.
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

    /// - Parameter place: where it begins.
    init(
        _ exchange: HTTPExchange, _ identity: Identity, _ namespace: LiveNamespace, _ view: LogView,
        at place: LogPlace, _ answers: DurableAnswers, _ host: any LogReadingHost
    ) {
        self.exchange = exchange
        self.identity = identity
        self.namespace = namespace
        self.view = view
        self.answers = answers
        self.host = host
        pump = LogPump(at: place)
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
        case .read(let place): host.read(self, at: place)
        case .awaitEntry(let seq): host.awaitEntry(seq, for: self)
        case .nothing: break
        }
    }

    func woke() { follow(pump.woke(isFull: false)) }
    func drained() {}
    func keepAlive() { woke() }
    func revoke() { answers.refuseIdentity(exchange) }

    /// Answers that nothing has come in time.
    func end() {
        guard let seen else { return answers.refuse(.engine(.unavailable("the log was not read in time")), exchange) }
        answers.respond(nothingBehind: seen, exchange)
    }
}

/// When a reader of the log is given its next slice: not before it has taken the last, and not before there is one. A value
/// without I/O.
struct LogPump: Sendable, Equatable {
    /// What to do next.
    enum Ask: Sendable, Equatable {
        /// Read the slice after the place; then `received`.
        case read(LogPlace)
        /// Say `woke` once the log has that entry.
        case awaitEntry(Int64)
        /// Wait for what was asked for before, or for the client.
        case nothing
    }

    private enum State: Equatable {
        case reading
        /// The log has no more for now.
        case atEnd
        /// The client has not taken what it was given.
        case full
    }

    /// The end of what was read.
    private var place: LogPlace
    private var state = State.reading

    /// A reader that has been given nothing. Its first slice is being read.
    init(at place: LogPlace) { self.place = place }

    /// Whether the log has no more for now, as far as this reader knows.
    var isAtEnd: Bool { state == .atEnd }

    /// A slice is here.
    ///
    /// - Parameters:
    ///   - end: the place behind it.
    ///   - isAtEnd: whether the log ended there.
    ///   - isFull: whether more is waiting for the client, with the slice, than may wait when the next one is read.
    mutating func received(to end: LogPlace, isAtEnd: Bool, isFull: Bool) -> Ask {
        guard state == .reading else { return .nothing }
        place = end
        if isAtEnd {
            state = .atEnd
            return .awaitEntry(end.seq + 1)
        }
        return goOn(isFull: isFull)
    }

    /// The log may have the entry that was waited for, or it is time to look.
    mutating func woke(isFull: Bool) -> Ask {
        guard state == .atEnd else { return .nothing }
        return goOn(isFull: isFull)
    }

    /// The client has taken all that waited for it.
    mutating func drained() -> Ask {
        guard state == .full else { return .nothing }
        return goOn(isFull: false)
    }

    private mutating func goOn(isFull: Bool) -> Ask {
        guard !isFull else {
            state = .full
            return .nothing
        }
        state = .reading
        return .read(place)
    }
}
