import Engine
import HTTPServer
import Runtime
import Wire

/// One client's stream of the log.
///
/// It is read a slice at a time, and the next one only when the client has taken most of the last: a slow client costs the memory
/// of two slices, and as it reads no faster than it takes, it is never behind what it is sent.
final class LogStream: LogReading {
    /// How lines are sent.
    enum Form {
        case lines
        case events
        case durableEvents(cursor: Int64?)
    }

    let exchange: HTTPExchange
    let identity: Identity
    let namespace: LiveNamespace
    let view: LogView
    private let form: Form
    private let bufferBytes: Int
    private unowned let host: any LogReadingHost
    private var pump: LogPump
    /// What the client knows of how far it is.
    private var toldPlace: LogPlace

    /// - Parameters:
    ///   - place: where it begins.
    ///   - bound: the last entry that is wanted; nil for no end.
    ///   - bufferBytes: how much may wait for the client when more is read.
    init(
        _ exchange: HTTPExchange, _ identity: Identity, _ namespace: LiveNamespace, _ view: LogView, _ form: Form,
        at place: LogPlace, through bound: Int64?, bufferBytes: Int, _ host: any LogReadingHost
    ) {
        self.exchange = exchange
        self.identity = identity
        self.namespace = namespace
        self.view = view
        self.form = form
        self.bufferBytes = bufferBytes
        self.host = host
        pump = LogPump(at: place, through: bound)
        toldPlace = place
    }

    func received(_ result: Result<LogSlice, LogReadError>) {
        // The client comes back, and is told what is wrong.
        guard case .success(let slice) = result else { return exchange.close() }
        send(slice)
        follow(pump.received(to: slice.end, isAtEnd: slice.isAtEnd, isFull: isFull))
    }

    private func send(_ slice: LogSlice) {
        let bytes: [UInt8]
        switch form {
        case .lines: bytes = LogFrames.lines(slice)
        case .events:
            bytes = LogFrames.events(slice)
            if let last = slice.lines.last(where: { $0.place.inside == nil }) { toldPlace = last.place }
        case .durableEvents(let cursor):
            bytes = LogFrames.durableEvents(slice, cursor: StreamCursor.next(after: cursor))
        }
        if !bytes.isEmpty { exchange.send(SharedBytes(bytes)) }
    }

    private var isFull: Bool { exchange.queuedOutputBytes > bufferBytes }

    private func follow(_ ask: LogPump.Ask) {
        switch ask {
        case .read(let place): host.read(self, at: place)
        case .awaitEntry(let seq): host.awaitEntry(seq, for: self)
        case .nothing: break
        case .finish: exchange.close()
        }
    }

    func woke() { follow(pump.woke(isFull: isFull)) }

    func drained() { follow(pump.drained()) }

    func keepAlive() {
        guard pump.isAtEnd else { return }
        if exchange.queuedOutputBytes == 0 { exchange.send(SharedBytes(signOfLife())) }
        // What was waited for may be of a history that is no more, or was waited for too long.
        woke()
    }

    private func signOfLife() -> [UInt8] {
        switch form {
        case .lines: return LogFrames.emptyLine
        case .durableEvents: return LogFrames.comment
        case .events:
            guard pump.place.inside == nil, pump.place.seq > toldPlace.seq else { return LogFrames.comment }
            toldPlace = pump.place
            return LogFrames.progress(pump.place)
        }
    }

    func revoke() {
        exchange.dropQueuedOutput()
        if case .events = form { exchange.send(SharedBytes(StreamEvent.authRevoked)) }
        exchange.close()
    }

    func end() { exchange.close() }
}
