import LogStore
import Runtime
import Tree

/// Reads old entries for those who ask, on a thread and connection of its own, so that commits don't wait for it.
final class LogReader: Sendable {
    struct Request: Sendable {
        let namespace: Int64
        let after: Int64
        let through: Int64
        /// Whether the entry at `after`, by its batch, is the one that is meant; nil where any is.
        let isMeant: (@Sendable (_ batch: [UInt8]) -> Bool)?
        /// Takes a page of entries, the first of which should be `after + 1`, and their batches; false to end.
        let each: @Sendable (_ entries: [Entry], _ batches: [[UInt8]], _ after: Int64) -> Bool
        let completion: @Sendable (Result<Void, EngineError>) -> Void
    }

    private let core: EngineCore
    private let requests = Condition<[Request]>([])
    private static let maxWaiting = 10_000

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
        var connection: LogConnection?
        while let request = requests.wait(until: { requests -> Request?? in
            if core.stopsNow { return .some(nil) }
            return requests.isEmpty ? nil : .some(requests.removeFirst())
        }) ?? nil {
            do throws(LogStoreError) {
                if connection?.isOpen != true { connection = try core.connect("reader") }
                if let connection, try !read(request, connection) {
                    request.completion(.failure(.unavailable("the log has another history")))
                } else {
                    request.completion(.success(()))
                }
            } catch {
                if error.isConnectionLost {
                    connection?.close()
                    connection = nil
                }
                request.completion(.failure(.unavailable("\(error)")))
            }
        }
        connection?.close()
    }

    /// False, and nothing is read, where the log has another entry than is meant.
    private func read(_ request: Request, _ connection: LogConnection) throws(LogStoreError) -> Bool {
        if let isMeant = request.isMeant {
            guard let history = try connection.history(request.namespace, at: request.after) else { return false }
            if let batch = history.batch(of: request.after) {
                guard isMeant(batch) else { return false }
            } else if request.after >= history.retainedFrom {
                // An entry that should be there and isn't.
                return false
            }
        }
        var log = LogFollower(request.namespace, at: LogCursor(seq: request.after), through: request.through)
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
}
