import Engine
import HTTPServer
import Runtime

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
