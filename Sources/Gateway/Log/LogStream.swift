import Engine
import HTTPServer
import Runtime

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
