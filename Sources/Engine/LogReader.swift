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
    }

    private let core: EngineCore
    private let requests = Condition<[Request]>([])
    private static let maxWaiting = 10_000
    /// For so long after a new connection was of no use none is opened, and those who can't wait any longer fail at once: opening
    /// one may take seconds, and many may wait.
    private static let pauseMilliseconds: Milliseconds = 200

    init(_ core: EngineCore) { self.core = core }

    func add(_ request: Request) {
        let isTaken = requests.signal { requests -> Bool in
            guard requests.count < Self.maxWaiting else { return false }
            requests.append(request)
            return true
        }
        if !isTaken { request.completion(.failure(.overloaded)) }
    }

    func wake() { requests.broadcast { _ in } }

    func run() {
        var link = Link()
        while let request = requests.wait(until: { requests -> Request?? in
            if core.stopsNow { return .some(nil) }
            return requests.isEmpty ? nil : .some(requests.removeFirst())
        }) ?? nil {
            request.completion(answer(request, &link))
        }
        link.connection?.close()
        let left = requests.withLock { requests in
            defer { requests.removeAll() }
            return requests
        }
        for request in left { request.completion(.failure(.stopping)) }
    }

    /// The way to the database.
    private struct Link {
        var connection: LogConnection?
        /// Why the last connection was of no use, and until when none is opened.
        var away: (error: LogStoreError, until: Milliseconds)?
    }

    /// Reads, on another connection where one is lost: that says nothing about the log, and maybe nothing about the database.
    private func answer(_ request: Request, _ link: inout Link) -> Result<Void, EngineError> {
        var reading = Reading(request)
        var isFirst = true
        while true {
            if let away = link.away, !pause(until: away.until, for: request) {
                return .failure(.unavailable("\(away.error)"))
            }
            do throws(LogStoreError) {
                guard try reading.go(on: try open(&link, by: request.deadline)) else {
                    return .failure(.unavailable("the log has another history"))
                }
                return .success(())
            } catch {
                // One of before an outage is lost as soon as it is used: that alone says nothing, and counts for nothing.
                guard error.isConnectionLost, isFirst || Clock.monotonicMilliseconds < request.deadline else {
                    return .failure(.unavailable("\(error)"))
                }
                link.connection?.close()
                link.connection = nil
                if !isFirst { link.away = (error, Clock.monotonicMilliseconds + Self.pauseMilliseconds) }
                isFirst = false
            }
        }
    }

    private func open(_ link: inout Link, by deadline: Milliseconds) throws(LogStoreError) -> LogConnection {
        if let connection = link.connection, connection.isOpen { return connection }
        link.away = nil
        let connection = try core.connect("reader", by: deadline)
        link.connection = connection
        return connection
    }

    /// Waits until then; false where the request can't, or the engine ends.
    private func pause(until moment: Milliseconds, for request: Request) -> Bool {
        let now = Clock.monotonicMilliseconds
        guard now < moment else { return true }
        guard now < request.deadline else { return false }
        return requests.wait(milliseconds: moment - now) { _ in core.stopsNow ? true : nil } == nil
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
