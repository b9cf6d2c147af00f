import LogStore
import Runtime
import Tree

/// Reads old entries on a thread and connection of its own, so that commits need not wait for such reads.
final class LogReader: Sendable {
    struct Request: Sendable {
        let namespace: Int64
        let after: Int64
        let through: Int64
        /// The time until which the request waits for an unavailable database.
        let deadline: Milliseconds
        /// Returns whether the entry at `after`, identified by its batch, is the expected one; nil accepts any.
        let isMeant: (@Sendable (_ batch: [UInt8]) -> Bool)?
        /// Receives a page of entries, the first of which should be `after + 1`, and their batches; returns false to
        /// end.
        let each: @Sendable (_ entries: [Entry], _ batches: [[UInt8]], _ after: Int64) -> Bool
        let completion: @Sendable (Result<Void, EngineError>) -> Void

        /// Whether the request no longer waits for the database.
        var isLate: Bool { Clock.monotonicMilliseconds >= deadline }
    }

    private struct State {
        var requests: [Request] = []
        /// The error of a new connection that was lost just now.
        var away: EngineError?
    }

    private let core: EngineCore
    private let state = Condition(State())
    private static let maxWaiting = 10_000
    /// No connection is opened for this time after a new one was lost: opening one may take seconds, and many requests
    /// may be waiting.
    private static let pauseMilliseconds: Milliseconds = 200
    /// Minimum time for opening a connection, even if the request's own deadline is earlier.
    private static let leastConnectMilliseconds: Milliseconds = 2_000

    init(_ core: EngineCore) { self.core = core }

    func add(_ request: Request) {
        let refusal = state.signal { state -> EngineError? in
            if core.stopsNow { return .stopping }
            // A late request fails immediately instead of waiting after requests that wait for the database.
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

    /// The connection to the database.
    private struct Link {
        var connection: LogConnection?
        /// The time until which no connection is opened, and the reason.
        var away: (error: EngineError, until: Milliseconds)?
    }

    /// Answers a request. Repeats the read on another connection if one is lost, because the loss says nothing about
    /// the log, and may say nothing about the database.
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
                // A connection from before an outage is lost at its next use. Another one is opened immediately.
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

    /// Waits until `moment`; returns false if the request cannot wait that long or the engine stops.
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

    /// The progress of a request. Reading resumes at the last position on any connection.
    private struct Reading {
        let request: Request
        private var log: LogFollower
        private var isChecked: Bool

        init(_ request: Request) {
            self.request = request
            log = LogFollower(request.namespace, at: LogPosition(seq: request.after), through: request.through)
            isChecked = request.isMeant == nil
        }

        /// Reads the rest. Returns false, without reading, if the log has another entry at `after` than expected.
        mutating func go(on connection: LogConnection) throws(LogStoreError) -> Bool {
            if !isChecked {
                guard try isMeant(connection) else { return false }
                isChecked = true
            }
            while log.position.seq < request.through {
                let after = log.position.seq
                switch try log.next(on: connection) {
                case .entries(let page):
                    guard request.each(page.map(\.entry), page.map(\.batchID), after) else { return true }
                case .missing(_, let page):
                    guard let last = page.last, request.each(page.map(\.entry), page.map(\.batchID), after) else {
                        return true
                    }
                    log.restart(at: last.position)
                case .bulk, .rules, .rolledBack, .end: return true
                }
            }
            return true
        }

        private func isMeant(_ connection: LogConnection) throws(LogStoreError) -> Bool {
            guard let isMeant = request.isMeant else { return true }
            guard let history = try connection.history(request.namespace, at: request.after) else { return false }
            if let batch = history.batch(of: request.after) { return isMeant(batch) }
            // The entry should be in the log but is missing.
            return request.after < history.retainedFrom
        }
    }
}
