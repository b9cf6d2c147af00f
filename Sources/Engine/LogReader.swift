import LogStore
import Runtime
import Tree

/// Reads old entries for those who ask, on a thread and connection of its own, so that commits don't wait for it.
final class LogReader: Sendable {
    struct Request: Sendable {
        let namespace: Int64
        let after: Int64
        let through: Int64
        /// Until when it waits for a database that is away.
        let deadline: Milliseconds
        /// Whether the entry at `after`, by its batch, is the one that is meant; nil where any is.
        let isMeant: (@Sendable (_ batch: [UInt8]) -> Bool)?
        /// Takes a page of entries, the first of which should be `after + 1`, and their batches; false to end.
        let each: @Sendable (_ entries: [Entry], _ batches: [[UInt8]], _ after: Int64) -> Bool
        let completion: @Sendable (Result<Void, EngineError>) -> Void

        /// It waits for nothing any more.
        var isLate: Bool { Clock.monotonicMilliseconds >= deadline }
    }

    private struct State {
        var requests: [Request] = []
        /// Why a new connection was of no use just now.
        var away: EngineError?
    }

    private let core: EngineCore
    private let state = Condition(State())
    private static let maxWaiting = 10_000
    /// For so long after a new connection was of no use none is opened: opening one may take seconds, and many may wait.
    private static let pauseMilliseconds: Milliseconds = 200
    /// Opening one may take so long, also for those who wait for nothing.
    private static let leastConnectMilliseconds: Milliseconds = 2_000

    init(_ core: EngineCore) { self.core = core }

    func add(_ request: Request) {
        let refusal = state.signal { state -> EngineError? in
            if core.stopsNow { return .stopping }
            // Not behind those who wait for the database.
            if let away = state.away, request.isLate { return away }
            guard state.requests.count < Self.maxWaiting else { return .overloaded }
            state.requests.append(request)
            return nil
        }
        if let refusal { request.completion(.failure(refusal)) }
    }

    func wake() { state.broadcast { _ in } }

    func run() {
        var link = Link()
        while let request = state.wait(until: { state -> Request?? in
            if core.stopsNow { return .some(nil) }
            return state.requests.isEmpty ? nil : .some(state.requests.removeFirst())
        }) ?? nil {
            request.completion(answer(request, &link))
        }
        link.connection?.close()
        fail(.stopping) { _ in true }
    }

    /// The way to the database.
    private struct Link {
        var connection: LogConnection?
        /// Until when none is opened, and why.
        var away: (error: EngineError, until: Milliseconds)?
    }

    /// Reads, on another connection where one is lost: that says nothing about the log, and maybe nothing about the database.
    private func answer(_ request: Request, _ link: inout Link) -> Result<Void, EngineError> {
        var reading = Reading(request)
        while true {
            if let away = link.away, !pause(until: away.until, for: request) { return .failure(away.error) }
            let wasOpen = link.connection?.isOpen == true
            do throws(LogStoreError) {
                guard try reading.go(on: try open(&link, by: request.deadline)) else {
                    return .failure(.unavailable("the log has another history"))
                }
                return .success(())
            } catch {
                let failure = EngineError.unavailable("\(error)")
                guard error.isConnectionLost else { return .failure(failure) }
                link.connection?.close()
                link.connection = nil
                // One of before an outage is lost as soon as it is used: then another one is opened at once.
                if wasOpen { continue }
                link.away = (failure, Clock.monotonicMilliseconds + Self.pauseMilliseconds)
                state.withLock { $0.away = failure }
                fail(failure) { $0.isLate }
                if request.isLate { return .failure(failure) }
            }
        }
    }

    private func open(_ link: inout Link, by deadline: Milliseconds) throws(LogStoreError) -> LogConnection {
        if let connection = link.connection, connection.isOpen { return connection }
        let deadline = max(deadline, Clock.monotonicMilliseconds + Self.leastConnectMilliseconds)
        let connection = try core.connect("reader", by: deadline)
        link = Link(connection: connection)
        state.withLock { $0.away = nil }
        return connection
    }

    /// Waits until then; false where the request can't, or the engine ends.
    private func pause(until moment: Milliseconds, for request: Request) -> Bool {
        let left = moment - Clock.monotonicMilliseconds
        guard left > 0 else { return true }
        return !request.isLate && state.wait(milliseconds: left) { _ in core.stopsNow ? true : nil } == nil
    }

    private func fail(_ error: EngineError, where isMeant: (Request) -> Bool) {
        let failed = state.withLock { state in
            let failed = state.requests.filter(isMeant)
            state.requests.removeAll(where: isMeant)
            return failed
        }
        for request in failed { request.completion(.failure(error)) }
    }

    /// How far a request has come. Goes on where it was, on whatever connection.
    private struct Reading {
        let request: Request
        private var log: LogFollower
        private var isChecked: Bool

        init(_ request: Request) {
            self.request = request
            log = LogFollower(request.namespace, at: LogCursor(seq: request.after), through: request.through)
            isChecked = request.isMeant == nil
        }

        /// False, and nothing is read, where the log has another entry than is meant.
        mutating func go(on connection: LogConnection) throws(LogStoreError) -> Bool {
            if !isChecked {
                guard try isMeant(connection) else { return false }
                isChecked = true
            }
            while log.cursor.seq < request.through {
                let after = log.cursor.seq
                switch try log.next(on: connection) {
                case .entries(let page):
                    guard request.each(page.map(\.entry), page.map(\.batchID), after) else { return true }
                case .missing(_, let page):
                    guard let last = page.last, request.each(page.map(\.entry), page.map(\.batchID), after) else {
                        return true
                    }
                    log.restart(at: last.cursor)
                case .bulk, .rules, .takenBack, .end: return true
                }
            }
            return true
        }

        private func isMeant(_ connection: LogConnection) throws(LogStoreError) -> Bool {
            guard let isMeant = request.isMeant else { return true }
            guard let history = try connection.history(request.namespace, at: request.after) else { return false }
            if let batch = history.batch(of: request.after) { return isMeant(batch) }
            // An entry that should be there and isn't.
            return request.after < history.retainedFrom
        }
    }
}
