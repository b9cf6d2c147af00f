import LogStore
import Runtime

/// The threads that read the log for feeds. A thread takes a namespace that has work, runs some steps and returns the namespace.
/// Only one thread has a namespace at a time.
final class FeedReaders: Sendable {
    fileprivate struct Entry {
        // Safe: only the thread that has taken the namespace (`isTaken`) calls the reader. The lock around `entries` orders the
        // calls of successive threads.
        nonisolated(unsafe) let reader: NamespaceReader
        var starting: [FeedStart] = []
        var ending: [FeedClaim] = []
        var hasNews = true
        var isTaken = false
        var isQueued = false
        /// Whether work has arrived while a thread had the namespace.
        var isWanted = false
    }

    fileprivate struct State: Sendable {
        var entries: [Int64: Entry] = [:]
        var queue: [Int64] = []
        var stops = false
    }

    private enum Job {
        case work(Int64, NamespaceReader, [FeedStart], [FeedClaim], hasNews: Bool)
        case stop
    }

    private let core: FeedCore
    private let found: @Sendable ([FoundMessages]) -> Void
    private let state = Condition(State())
    private let failed: @Sendable (Set<FeedClaim>, String) -> Void
    private let keep: @Sendable (Int64, TreeVersion) -> Void

    /// - Parameters:
    ///   - found: Receives messages, in order.
    ///   - keep: Receives trees that should be stored.
    ///   - failed: Receives feeds that must restart, and the reason.
    init(
        _ core: FeedCore, found: @escaping @Sendable ([FoundMessages]) -> Void,
        keep: @escaping @Sendable (_ namespace: Int64, _ tree: TreeVersion) -> Void,
        failed: @escaping @Sendable (Set<FeedClaim>, String) -> Void
    ) {
        self.core = core
        self.found = found
        self.keep = keep
        self.failed = failed
    }

    // MARK: From other threads

    func add(_ start: FeedStart) {
        state.signal { state in
            let id = start.feed.claim.namespace
            if state.entries[id] == nil {
                state.entries[id] = Entry(
                    reader: NamespaceReader(
                        core, id, found: found,
                        restart: { [failed] in failed($0, $1) },
                        keep: { [keep] in keep(id, $0) },
                        wake: { [weak self] in self?.headSeen(id) }))
            }
            state.entries[id]?.starting.append(start)
            state.queue(id)
        }
    }

    func remove(_ claim: FeedClaim) {
        state.signal { state in
            state.entries[claim.namespace]?.starting.removeAll { $0.feed.claim == claim }
            state.entries[claim.namespace]?.ending.append(claim)
            state.queue(claim.namespace)
        }
    }

    /// Notes that a namespace's log may have grown.
    func headSeen(_ namespace: Int64) {
        state.signal { state in
            guard state.entries[namespace] != nil else { return }
            state.entries[namespace]?.hasNews = true
            state.queue(namespace)
        }
    }

    /// Notes that a feed of the namespace has room for more messages.
    func hasRoom(_ namespace: Int64) { state.signal { $0.queue(namespace) } }

    func stop() { state.broadcast { $0.stops = true } }

    // MARK: The threads

    func run() {
        var connection: LogConnection?
        var backoff = Backoff(
            firstMilliseconds: core.settings.firstRetryMilliseconds,
            longestMilliseconds: core.settings.maxRetryMilliseconds)
        while case .work(let id, let reader, let starting, let ending, let hasNews) = next() {
            // Starting with the earliest entry lets later starts build on its tree.
            var starts = starting.sorted { $0.wantedSeq < $1.wantedSeq }[...]
            var early: [FeedStart] = []
            var base: TreeVersion?
            // This must happen before anything can fail, because these feeds are removed only once.
            for claim in ending { reader.remove(claim) }
            if hasNews { reader.headSeen() }
            do {
                let open = try connection ?? core.connect("feed reader")
                connection = open
                while let start = starts.first {
                    do {
                        if try !reader.add(start, on: open, from: &base) { early.append(start) }
                    } catch {
                        // A lost connection concerns all feeds. Any other error concerns only this feed.
                        guard open.isOpen else { throw error }
                        failed([start.feed.claim], "\(error)")
                    }
                    starts = starts.dropFirst()
                }
                base = nil
                let hasMore = try step(reader, open)
                backoff.reset()
                giveBack(id, hasMore: hasMore, starting: early)
            } catch {
                giveBack(id, hasMore: false, starting: early + starts)
                guard !core.stopsNow else { break }
                core.logger.warning("feeds can't read the log", [("error", "\(error)")])
                if let lost = connection, !lost.isOpen { lost.close() }
                if connection?.isOpen != true { connection = nil }
                core.pause(milliseconds: backoff.nextMilliseconds())
                hasRoom(id)
            }
        }
        if let connection { connection.close() }
    }

    private func step(_ reader: NamespaceReader, _ connection: LogConnection) throws -> Bool {
        for _ in 0..<8 {
            guard !core.stopsNow, try reader.step(on: connection) else { return false }
        }
        return true
    }

    private func next() -> Job {
        state.wait { state -> Job? in
            if state.stops { return .stop }
            while !state.queue.isEmpty {
                let id = state.queue.removeFirst()
                guard var entry = state.entries[id] else { continue }
                let job = Job.work(id, entry.reader, entry.starting, entry.ending, hasNews: entry.hasNews)
                entry.starting = []
                entry.ending = []
                entry.hasNews = false
                entry.isTaken = true
                entry.isQueued = false
                state.entries[id] = entry
                return job
            }
            return nil
        } ?? .stop
    }

    private func giveBack(_ id: Int64, hasMore: Bool, starting: [FeedStart] = []) {
        state.signal { state in
            guard var entry = state.entries[id] else { return }
            entry.isTaken = false
            // A feed may have been removed before it was started.
            entry.starting = starting.filter { !entry.ending.contains($0.feed.claim) } + entry.starting
            let isWanted = hasMore || entry.isWanted
            entry.isWanted = false
            state.entries[id] = entry
            if isWanted { state.queue(id) }
        }
    }
}

extension FeedReaders.State {
    /// Queues a namespace for a thread. If a thread has it, it is queued again afterwards.
    fileprivate mutating func queue(_ id: Int64) {
        guard var entry = entries[id] else { return }
        if entry.isTaken {
            entry.isWanted = true
        } else if !entry.isQueued {
            entry.isQueued = true
            queue.append(id)
        }
        entries[id] = entry
    }
}
