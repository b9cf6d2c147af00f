import LogStore
import Runtime

/// A few threads, each with a connection of its own, that read logs for those who want them whole. Any thread may ask.
///
/// Each question is for one slice, and questions are answered in the order in which they come. As a reader asks for its next slice
/// when it has the last one, readers take turns: one that begins at the log's beginning keeps nobody who waits at its end.
/// Streams of data that resume read by `LogReader`, on its own thread, and so are not behind any of these.
public final class LogReadPool: Sendable {
    private enum Job: Sendable {
        case extent(Int64, String, @Sendable (Result<LogExtent, LogReadError>) -> Void)
        case slice(LogView, LogPlace, @Sendable (Result<LogSlice, LogReadError>) -> Void)

        func fail(_ error: EngineError) {
            switch self {
            case .extent(_, _, let completion): completion(.failure(.engine(error)))
            case .slice(_, _, let completion): completion(.failure(.engine(error)))
            }
        }
    }

    private struct State: Sendable {
        var jobs: [Job] = []
        var isStopped = false
    }

    private let core: EngineCore
    private let limits: LogReadLimits
    private let state = Condition(State())

    /// Readers have one question at a time, and are bounded themselves: this is far beyond.
    private static let maxWaiting = 100_000
    /// A connection that nobody has needed for so long is closed.
    private static let idleMilliseconds: Milliseconds = 30_000
    /// For so long after a connection could not be opened all questions fail at once: opening one may take seconds, and behind
    /// the first question there may be one of each reader.
    private static let pauseMilliseconds: Milliseconds = 1_000

    init(_ core: EngineCore, _ limits: LogReadLimits) {
        self.core = core
        self.limits = limits
    }

    /// Finds out from where to where a namespace's log reaches. `completion` is called from another thread.
    public func extent(
        _ namespace: Int64, name: String, _ completion: @escaping @Sendable (Result<LogExtent, LogReadError>) -> Void
    ) {
        add(.extent(namespace, name, completion))
    }

    /// Reads some lines behind a place. `completion` is called from another thread.
    public func slice(
        _ view: LogView, at place: LogPlace,
        _ completion: @escaping @Sendable (Result<LogSlice, LogReadError>) -> Void
    ) {
        add(.slice(view, place, completion))
    }

    private func add(_ job: Job) {
        let refusal = state.signal { state -> EngineError? in
            if state.isStopped { return .stopping }
            guard state.jobs.count < Self.maxWaiting else { return .overloaded }
            state.jobs.append(job)
            return nil
        }
        if let refusal { job.fail(refusal) }
    }

    /// Ends the threads; what still waits fails.
    func stop() {
        let jobs = state.broadcast { state -> [Job] in
            state.isStopped = true
            defer { state.jobs = [] }
            return state.jobs
        }
        for job in jobs { job.fail(.stopping) }
    }

    // MARK: The threads

    func run() {
        var connection: LogConnection?
        var installation = ""
        var away: (error: LogStoreError, until: Milliseconds)?
        defer { connection?.close() }
        while !state.withLock({ $0.isStopped }) {
            guard let job = next(hasConnection: connection != nil) else {
                connection?.close()
                connection = nil
                continue
            }
            do throws(LogStoreError) {
                if connection?.isOpen != true {
                    connection?.close()
                    connection = nil
                    if let away, Clock.monotonicMilliseconds < away.until { throw away.error }
                    away = nil
                    (connection, installation) = try connect()
                }
                if let connection { try answer(job, connection, installation) }
            } catch {
                if connection == nil, away == nil {
                    away = (error, until: Clock.monotonicMilliseconds + Self.pauseMilliseconds)
                }
                if error.isConnectionLost {
                    connection?.close()
                    connection = nil
                }
                job.fail(EngineError(error))
            }
        }
    }

    private func connect() throws(LogStoreError) -> (LogConnection, installation: String) {
        let connection = try core.connect("log stream")
        do throws(LogStoreError) {
            return (connection, try connection.installation())
        } catch {
            connection.close()
            throw error
        }
    }

    /// The next job; nil when there was none for long, or the threads are to end.
    private func next(hasConnection: Bool) -> Job? {
        state.wait(milliseconds: hasConnection ? Self.idleMilliseconds : nil) { state -> Job?? in
            if state.isStopped { return .some(nil) }
            return state.jobs.isEmpty ? nil : .some(state.jobs.removeFirst())
        } ?? nil
    }

    private func answer(_ job: Job, _ connection: LogConnection, _ installation: String) throws(LogStoreError) {
        let reader = LogSliceReader(connection: connection, limits: limits)
        switch job {
        case .extent(let namespace, let name, let completion):
            completion(.success(try reader.extent(namespace, name)))
        case .slice(let view, let place, let completion):
            completion(try reader.slice(view, at: place, installation: installation))
        }
    }
}
