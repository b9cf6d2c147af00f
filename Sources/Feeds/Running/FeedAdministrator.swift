import LogStore
import Runtime

/// The threads on which administrators' requests use the database.
///
/// There are three threads, each with its own connection: for reads, for changes, and for whole trees. Each thread serves
/// namespaces in turn, and the feeds of a namespace in turn. The changes of one feed run in the order of their arrival: changes
/// that follow a request for a whole tree wait for it.
final class FeedAdministrator: Sendable {
    /// The outcome of a request.
    enum Outcome {
        case done
        /// The request has done nothing yet: it needs a snapshot of a tree, which only the thread for trees may take.
        case needsTree
    }

    typealias Body = @Sendable (Result<FeedAdministration, any Error>) -> Outcome

    /// A thread and its queue.
    enum Kind: CaseIterable, Sendable {
        case reads, changes, trees

        var threadName: String {
            switch self {
            case .reads: "feed-admin"
            case .changes: "feed-changes"
            case .trees: "feed-trees"
            }
        }

        /// The maximum number of waiting requests. `FairLedger` limits a namespace to half of them and a feed to a quarter.
        fileprivate var capacity: Int { self == .trees ? 64 : 1_000 }
        /// How long a request may wait.
        fileprivate var patienceMilliseconds: Milliseconds { self == .trees ? 30_000 : 10_000 }
    }

    private let core: FeedCore
    private let state = Condition(AdministratorWork())
    /// The time after which an unused connection is closed.
    private static let idleMilliseconds: Milliseconds = 30_000

    init(_ core: FeedCore) { self.core = core }

    /// Queues a request. `body` is called on another thread, and once more if it returns `needsTree`.
    /// If the request waits for too long, `body` receives `FeedBusyError`.
    ///
    /// - Parameters:
    ///   - kind: `reads`, `changes`, or `trees` for requests that may take long and change no feed.
    ///   - feed: The feed whose turn the request uses. Requests that concern no feed pass an empty name.
    ///   - isUrgent: Whether the request overtakes the other waiting requests of the feed. Not for changes.
    /// - Returns: False if too many requests wait; `body` is then never called.
    func add(_ kind: Kind, of feed: FeedName, isUrgent: Bool = false, _ body: @escaping Body) -> Bool {
        let now = Clock.monotonicMilliseconds
        return state.broadcast { $0.add(kind, of: feed, isUrgent: isUrgent, now: now, body) }
    }

    /// Queues a tree to be stored as a snapshot. Only the newest of a namespace's waiting trees is stored.
    func keep(_ tree: TreeVersion, of namespace: Int64) {
        let isFirst = state.withLock { $0.trees.updateValue(tree, forKey: namespace) == nil }
        guard isFirst else { return }
        let isQueued = add(.trees, of: FeedName(namespace: "\(namespace)", name: "")) { [core, state] result in
            guard let tree = state.withLock({ $0.trees.removeValue(forKey: namespace) }) else { return .done }
            do {
                try result.get().keep(tree, of: namespace)
            } catch {
                // The next snapshot that is due may succeed. Without a snapshot, a takeover takes longer.
                core.logger.warning(
                    "a feed's tree could not be stored", [("seq", "\(tree.seq)"), ("error", "\(error)")])
            }
            return .done
        }
        if !isQueued { state.withLock { $0.trees[namespace] = nil } }
    }

    /// Fails the requests that have waited for too long. The caller is a thread that never blocks for long.
    func expire(at now: Milliseconds) {
        for job in state.withLock({ $0.expire(at: now) }) { _ = job.body(.failure(FeedBusyError())) }
    }

    /// Ends the threads, and fails the waiting requests.
    func stop() {
        for job in state.broadcast({ $0.stop() }) { _ = job.body(.failure(FeedRefusalError(.stopping))) }
    }

    // MARK: Threads

    /// Runs the requests of a queue until `stop`.
    func run(_ kind: Kind) {
        var connection: LogConnection?
        defer { connection?.close() }
        while true {
            let pause = connection == nil ? nil : Self.idleMilliseconds
            switch state.wait(milliseconds: pause, until: { $0.next(kind) }) {
            case .stop: return
            case nil:
                connection?.close()
                connection = nil
            case .run(let job, let mustMove):
                let outcome = mustMove ? .needsTree : perform(job, kind, &connection)
                let refused = state.broadcast {
                    $0.finish(job, kind, outcome, now: Clock.monotonicMilliseconds)
                }
                if let refused { _ = refused.body(.failure(FeedBusyError())) }
            }
        }
    }

    private func perform(_ job: AdministratorWork.Job, _ kind: Kind, _ connection: inout LogConnection?) -> Outcome {
        do {
            if let open = connection, !open.isOpen || (try? open.checkConnection()) == nil {
                open.close()
                connection = nil
            }
            let open = try connection ?? core.connect("feed administration")
            connection = open
            return job.body(.success(FeedAdministration(open, mayTakeSnapshots: kind == .trees)))
        } catch {
            return job.body(.failure(error))
        }
    }
}

/// A request has waited for too long.
public struct FeedBusyError: Error, Sendable, CustomStringConvertible {
    public var description: String { "Too many requests are waiting" }

    public init() {}
}

/// The waiting and running requests of administrators. A value without threads.
struct AdministratorWork: Sendable {
    typealias Kind = FeedAdministrator.Kind

    struct Job: Sendable {
        let feed: FeedName
        let body: FeedAdministrator.Body
    }

    enum Next {
        /// `mustMove`: the request must not run now, but after a request of the same feed that needs a whole tree.
        case run(Job, mustMove: Bool)
        case stop
    }

    /// The trees that wait to be stored, by namespace.
    var trees: [Int64: TreeVersion] = [:]
    private var reads = Self.queue(.reads)
    private var changes = Self.queue(.changes)
    private var wholeTrees = Self.queue(.trees)
    /// The number of requests of each feed that wait for a whole tree or are using one.
    private var treeJobs: [FeedName: Int] = [:]
    private var isStopped = false

    private typealias Queue = FairQueue<String, String, Job>

    private static func queue(_ kind: Kind) -> Queue { Queue(slots: 1, capacity: kind.capacity) }

    /// The number of waiting requests.
    var count: Int { reads.count + changes.count + wholeTrees.count }

    mutating func add(
        _ kind: Kind, of feed: FeedName, isUrgent: Bool, now: Milliseconds, _ body: @escaping FeedAdministrator.Body
    ) -> Bool {
        guard !isStopped else { return false }
        // Keeps the order of the feed's changes.
        let kind = kind == .changes && treeJobs[feed] != nil ? .trees : kind
        return put(Job(feed: feed, body: body), kind, isUrgent, now)
    }

    private mutating func put(_ job: Job, _ kind: Kind, _ isUrgent: Bool, _ now: Milliseconds) -> Bool {
        let ticket = with(kind) {
            $0.add(
                job, for: job.feed.name, of: job.feed.namespace, isUrgent: isUrgent,
                deadline: now + kind.patienceMilliseconds)
        }
        guard ticket != nil else { return false }
        if kind == .trees { treeJobs[job.feed, default: 0] += 1 }
        return true
    }

    mutating func next(_ kind: Kind) -> Next? {
        if isStopped { return .stop }
        guard let served = with(kind, { $0.next() }) else { return nil }
        return .run(served.item, mustMove: kind == .changes && treeJobs[served.item.feed] != nil)
    }

    /// Ends a request, or moves it to the queue for trees if it needs one.
    ///
    /// - Returns: The request if that queue does not accept it.
    mutating func finish(
        _ job: Job, _ kind: Kind, _ outcome: FeedAdministrator.Outcome, now: Milliseconds
    ) -> Job? {
        with(kind) { $0.finish(job.feed.name, of: job.feed.namespace) }
        if kind == .trees { ended(job) }
        guard case .needsTree = outcome, kind != .trees else { return nil }
        return !isStopped && put(job, .trees, false, now) ? nil : job
    }

    mutating func expire(at now: Milliseconds) -> [Job] {
        let late = wholeTrees.expire(at: now)
        for job in late { ended(job) }
        return reads.expire(at: now) + changes.expire(at: now) + late
    }

    mutating func stop() -> [Job] {
        isStopped = true
        treeJobs = [:]
        return reads.removeAll() + changes.removeAll() + wholeTrees.removeAll()
    }

    private mutating func ended(_ job: Job) {
        let left = (treeJobs[job.feed] ?? 0) - 1
        treeJobs[job.feed] = left > 0 ? left : nil
    }

    private mutating func with<Result>(_ kind: Kind, _ body: (inout Queue) -> Result) -> Result {
        switch kind {
        case .reads: body(&reads)
        case .changes: body(&changes)
        case .trees: body(&wholeTrees)
        }
    }
}
