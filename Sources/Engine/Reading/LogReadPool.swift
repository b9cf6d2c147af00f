import LogStore
import Runtime

/// A few threads, each with a connection of its own, that read whole logs. Any thread may add requests.
///
/// Each request is for one slice. Namespaces are served in turn, and within a namespace administrators and holders of
/// feed tokens in turn; requests of one of these groups are answered in order of arrival. As a reader requests its next
/// slice after it has received the last one, readers take turns: one that starts at the beginning of the log does not
/// delay one that waits at its end. Resuming data streams read through `LogReader`, on its own thread, and so never
/// wait for these requests.
public final class LogReadPool: Sendable {
    private enum Job: Sendable {
        case exists(String, @Sendable (Result<Bool, LogReadError>) -> Void)
        case extent(Int64, String, @Sendable (Result<LogExtent, LogReadError>) -> Void)
        case slice(LogView, LogLinePosition, @Sendable (Result<LogSlice, LogReadError>) -> Void)

        func fail(_ error: EngineError) {
            switch self {
            case .exists(_, let completion): completion(.failure(.engine(error)))
            case .extent(_, _, let completion): completion(.failure(.engine(error)))
            case .slice(_, _, let completion): completion(.failure(.engine(error)))
            }
        }
    }

    private typealias Jobs = FairQueue<Int64, Bool, Job>

    private struct State: Sendable {
        var jobs: Jobs
        var isStopped = false
        /// The error of the last attempt to open a connection, and the time until which requests fail with it.
        var away: (error: LogStoreError, until: Milliseconds)?
        /// The number of opened connections. A failure that began before the newest of them is outdated.
        var opened = 0
    }

    private let core: EngineCore
    private let limits: LogReadLimits
    private let state: Condition<State>

    /// Each reader has one request at a time, and the number of readers is limited: this limit is far higher.
    private static let maxWaiting = 100_000
    /// A connection that was unused for this time is closed.
    private static let idleMilliseconds: Milliseconds = 30_000
    /// After a connection could not be opened, all requests fail immediately for this time: opening one may take
    /// seconds, and each reader may have a request waiting.
    private static let pauseMilliseconds: Milliseconds = 1_000

    init(_ core: EngineCore, _ limits: LogReadLimits) {
        self.core = core
        self.limits = limits
        // Four times as many slots as threads: the rule for slots keeps none of the threads idle.
        state = Condition(State(jobs: Jobs(slots: 4 * max(1, core.settings.logReaders), capacity: Self.maxWaiting)))
    }

    /// Finds out whether a namespace with that name is in the database, without creating one. `completion` is called
    /// from another thread.
    public func exists(_ name: String, _ completion: @escaping @Sendable (Result<Bool, LogReadError>) -> Void) {
        // While its id is unknown, the request is queued under an id that no namespace has.
        add(.exists(name, completion), of: 0, isAdministrators: true)
    }

    /// Finds the first and last retained entry of a namespace's log. `completion` is called from another thread.
    public func extent(
        of view: LogView, _ completion: @escaping @Sendable (Result<LogExtent, LogReadError>) -> Void
    ) {
        add(.extent(view.namespace, view.name, completion), of: view.namespace, isAdministrators: view.hasOrigins)
    }

    /// Reads some lines after a log position. `completion` is called from another thread.
    public func slice(
        _ view: LogView, at position: LogLinePosition,
        _ completion: @escaping @Sendable (Result<LogSlice, LogReadError>) -> Void
    ) {
        add(.slice(view, position, completion), of: view.namespace, isAdministrators: view.hasOrigins)
    }

    private func add(_ job: Job, of namespace: Int64, isAdministrators: Bool) {
        let refusal = state.signal { state -> EngineError? in
            if state.isStopped { return .stopping }
            return state.jobs.add(job, for: isAdministrators, of: namespace) == nil ? .overloaded : nil
        }
        if let refusal { job.fail(refusal) }
    }

    /// Ends the threads; waiting requests fail.
    func stop() {
        let jobs = state.broadcast { state -> [Job] in
            state.isStopped = true
            return state.jobs.removeAll()
        }
        for job in jobs { job.fail(.stopping) }
    }

    // MARK: The threads

    func run() {
        var connection: LogConnection?
        var installation = ""
        defer { connection?.close() }
        while !state.withLock({ $0.isStopped }) {
            guard let served = next(hasConnection: connection != nil) else {
                connection?.close()
                connection = nil
                continue
            }
            defer { state.signal { $0.jobs.finish(served.member, of: served.group) } }
            let job = served.item
            // A kept connection may have been closed while unused, which says nothing about the database now: the job
            // gets another connection.
            var mayRetry = connection?.isOpen == true
            while true {
                do throws(LogStoreError) {
                    if connection?.isOpen != true {
                        connection?.close()
                        connection = nil
                        (connection, installation) = try connect()
                    }
                    if let connection { try answer(job, connection, installation) }
                } catch {
                    if error.isConnectionLost {
                        connection?.close()
                        connection = nil
                        if mayRetry {
                            mayRetry = false
                            continue
                        }
                    }
                    job.fail(EngineError(error))
                }
                break
            }
        }
    }

    /// Opens a connection, unless a thread has failed to do so within the pause and none has succeeded since.
    private func connect() throws(LogStoreError) -> (LogConnection, installation: String) {
        let (away, opened) = state.withLock { ($0.away, $0.opened) }
        if let away, Clock.monotonicMilliseconds < away.until { throw away.error }
        do throws(LogStoreError) {
            let answer = try open()
            state.withLock { state in
                state.away = nil
                state.opened += 1
            }
            return answer
        } catch {
            state.withLock { state in
                guard state.opened == opened else { return }
                state.away = (error, until: Clock.monotonicMilliseconds + Self.pauseMilliseconds)
            }
            throw error
        }
    }

    private func open() throws(LogStoreError) -> (LogConnection, installation: String) {
        let connection = try core.connect("log stream")
        do throws(LogStoreError) {
            return (connection, try connection.installation())
        } catch {
            connection.close()
            throw error
        }
    }

    /// Returns the next job; nil if there was none for a long time, or the threads have to end.
    private func next(hasConnection: Bool) -> Jobs.Served? {
        state.wait(milliseconds: hasConnection ? Self.idleMilliseconds : nil) { state -> Jobs.Served?? in
            if state.isStopped { return .some(nil) }
            return state.jobs.next().map { .some($0) }
        } ?? nil
    }

    private func answer(_ job: Job, _ connection: LogConnection, _ installation: String) throws(LogStoreError) {
        let reader = LogSliceReader(connection: connection, limits: limits)
        switch job {
        case .exists(let name, let completion):
            completion(.success(try connection.namespace(named: name) != nil))
        case .extent(let namespace, let name, let completion):
            completion(.success(try reader.extent(namespace, name)))
        case .slice(let view, let position, let completion):
            completion(try reader.slice(view, at: position, installation: installation))
        }
    }
}
