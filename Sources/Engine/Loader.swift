import LogStore
import Runtime

/// One loader: a thread with a connection that reads the trees of requested namespaces, so that committers need not.
final class Loader {
    private let core: EngineCore
    private let connection: CommitterConnection
    private let loader: NamespaceLoader
    /// The time until which no attempt is made to reach an unavailable database, and the error of the last attempt.
    private var away: (error: EngineError, until: Milliseconds)?

    /// A connection that was unused for this time is closed.
    private static let idleMilliseconds: Milliseconds = 30_000
    /// After a connection could not be opened, all loads fail immediately for this time: opening one may take seconds,
    /// and many loads may be waiting.
    private static let pauseMilliseconds: Milliseconds = 500

    init(_ core: EngineCore, _ host: NamespaceHost, index: Int) {
        self.core = core
        connection = CommitterConnection(core, name: "loader \(index)")
        loader = NamespaceLoader(
            core, host, StallMeter(name: "loader-\(index)", tooLongMilliseconds: 0) { _, _, _ in })
    }

    /// Works until the engine stops.
    func run() {
        while !core.loads.isStopped {
            guard let job = core.loads.next(milliseconds: connection.isThere ? Self.idleMilliseconds : nil) else {
                connection.drop()
                continue
            }
            load(job)
            core.memory.makeRoom(core.health)
        }
        connection.drop()
    }

    private func load(_ job: LoadQueue.Job) {
        var job = job
        defer { core.loads.finished(job) }
        while !end(job, attempt(&job)) {}
    }

    /// Passes the outcome to the waiting requests. Returns false if the namespace has to be read once more.
    private func end(_ job: LoadQueue.Job, _ outcome: NamespaceLoader.Outcome) -> Bool {
        switch outcome {
        case .postponed:
            core.namespaces.restarts(job.name)
            if !core.loads.postpone(job) { core.namespaces.loaded(job.name, .failure(.stopping)) }
            return true
        case .askedAgain:
            core.namespaces.restarts(job.name)
            if !core.loads.putBack(job) { core.namespaces.loaded(job.name, .failure(.stopping)) }
            return true
        case .refused: return true
        case .failed(let error): return core.namespaces.loaded(job.name, .failure(error))
        case .loaded(let namespace):
            // Before the requests get the namespace: otherwise it could be evicted immediately.
            core.memory.loaded(namespace)
            let isMeant = core.namespaces.loaded(job.name, .success(namespace))
            // Commits announced while the tree was being read were kept only in the table.
            let head = core.namespaces.takeAnnounced(of: namespace.id)
            if isMeant, head > 0 { namespace.headSeen(head) }
            return isMeant
        }
    }

    private func attempt(_ job: inout LoadQueue.Job) -> NamespaceLoader.Outcome {
        if let away, Clock.monotonicMilliseconds < away.until { return .failed(away.error) }
        away = nil
        var outcome = tryToLoad(&job)
        // The connection may date from before an outage, so its failure proves nothing about the database.
        if !connection.isThere, away == nil, case .failed(.unavailable) = outcome { outcome = tryToLoad(&job) }
        return outcome
    }

    private func tryToLoad(_ job: inout LoadQueue.Job) -> NamespaceLoader.Outcome {
        let current: LogConnection
        do throws(LogStoreError) {
            current = try connection.get()
        } catch {
            away = (EngineError(error), until: Clock.monotonicMilliseconds + Self.pauseMilliseconds)
            return .failed(EngineError(error))
        }
        do throws(LogStoreError) {
            return try loader.load(&job, current)
        } catch {
            if error.isConnectionLost { connection.drop() }
            // The namespace has moved away since it was found.
            if case .unknownNamespace = error, (try? current.livesElsewhere(job.name)) == true {
                return .failed(.moving)
            }
            return .failed(EngineError(error))
        }
    }
}
