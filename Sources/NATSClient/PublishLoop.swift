import Runtime

/// The client's thread: connects, sends, and fails messages whose time is over.
final class PublishLoop {
    private let core: NATSCore
    private let settings: NATSSettings
    private var connection: NATSConnection?

    private enum Step {
        case send([PublishTable.Item])
        case giveUp([PublishTable.Item])
        case connectionEnded([PublishTable.Item])
        case stop
    }

    init(_ core: NATSCore, _ settings: NATSSettings) {
        self.core = core
        self.settings = settings
    }

    func run() {
        while true {
            switch nextStep() {
            case .send(let items): send(items)
            case .giveUp(let items): giveUp(items)
            case .connectionEnded(let items): connectionEnded(items)
            case .stop:
                connection?.close()
                return
            case nil: continue
            }
        }
    }

    /// Waits for work. Returns nil if the state must be checked again.
    private func nextStep() -> Step? {
        let deadline = core.state.withLock { $0.table.nextDeadline() }
        let patience = deadline.map { max(0, $0 - Clock.monotonicMilliseconds) }
        return core.state.wait(milliseconds: patience) { state -> Step? in
            if state.isStopped { return .stop }
            if state.isConnectionEnded {
                state.isConnectionEnded = false
                return .connectionEnded(state.table.takeSent())
            }
            let expired = state.table.takeExpired(at: Clock.monotonicMilliseconds)
            if !expired.isEmpty { return .giveUp(expired) }
            // The deadline was computed before these messages arrived. The next call includes their deadlines.
            let waiting = state.table.takeWaiting()
            return waiting.isEmpty ? nil : .send(waiting)
        }
    }

    private func send(_ items: [PublishTable.Item]) {
        do throws(NATSError) {
            let connection = try connected()
            for item in items { send(item, over: connection) }
        } catch {
            for item in items { fail(item, error) }
        }
    }

    private func send(_ item: PublishTable.Item, over connection: NATSConnection) {
        do throws(NATSError) {
            try connection.publish(item.message, token: item.token)
        } catch {
            fail(item, error)
        }
    }

    private func connected() throws(NATSError) -> NATSConnection {
        if let connection { return connection }
        let number = core.state.withLock { state in
            state.connectionNumber += 1
            state.isConnectionEnded = false
            return state.connectionNumber
        }
        let made = try NATSConnection(settings, core: core, number: number)
        connection = made
        return made
    }

    private func connectionEnded(_ items: [PublishTable.Item]) {
        let reason = connection?.lastError ?? ""
        connection?.close()
        connection = nil
        for item in items {
            item.completion(.failure(.connectionLost(reason.isEmpty ? "the connection was closed" : reason)))
        }
    }

    private func giveUp(_ items: [PublishTable.Item]) {
        // A server reports a forbidden subject only through an error of the connection.
        let reason = connection?.lastError ?? ""
        for item in items { item.completion(.failure(.timedOut(reason))) }
    }

    /// Fails a message, unless it was acknowledged or stopped in the meantime.
    private func fail(_ item: PublishTable.Item, _ error: NATSError) {
        core.acknowledged(item.token, .failure(error))
    }
}
