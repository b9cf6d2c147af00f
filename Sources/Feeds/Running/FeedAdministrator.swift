import LogStore
import Runtime

/// The thread on which administrators' requests use the database.
final class FeedAdministrator: Sendable {
    typealias Body = @Sendable (Result<FeedAdministration, any Error>) -> Void

    private struct State: Sendable {
        var jobs: [Body] = []
        var stops = false
    }

    private let core: FeedCore
    private let state = Condition(State())
    private static let most = 1_000

    init(_ core: FeedCore) { self.core = core }

    /// False where too much waits.
    func add(_ body: @escaping Body) -> Bool {
        state.signal { state in
            guard !state.stops, state.jobs.count < Self.most else { return false }
            state.jobs.append(body)
            return true
        }
    }

    /// Keeps a tree as a snapshot, some time.
    func keep(_ tree: TreeVersion, of namespace: Int64) {
        _ = add { [logger = core.logger] result in
            do {
                try result.get().keep(tree, of: namespace)
            } catch {
                // The next one that is due may succeed; without it a takeover takes longer.
                logger.warning("a feed's tree could not be kept", [("seq", "\(tree.seq)"), ("error", "\(error)")])
            }
        }
    }

    func stop() { state.broadcast { $0.stops = true } }

    func run() {
        var connection: LogConnection?
        while let body = next() {
            do {
                if let open = connection, !open.isOpen || (try? open.checkConnection()) == nil {
                    open.close()
                    connection = nil
                }
                let open = try connection ?? core.connect("feed administration")
                connection = open
                body(.success(FeedAdministration(open)))
            } catch {
                body(.failure(error))
            }
        }
        if let connection { connection.close() }
    }

    private func next() -> Body? {
        enum Job {
            case run(Body)
            case stop
        }
        let job = state.wait { state -> Job? in
            if state.stops { return .stop }
            return state.jobs.isEmpty ? nil : .run(state.jobs.removeFirst())
        }
        guard case .run(let body) = job else { return nil }
        return body
    }
}
