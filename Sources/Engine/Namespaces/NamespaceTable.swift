import Runtime
import Synchronization

/// The namespaces that are in use, and those that are being loaded.
final class NamespaceTable: Sendable {
    typealias Completion = @Sendable (Result<LiveNamespace, EngineError>) -> Void

    fileprivate enum Slot: Sendable {
        case loading([Completion])
        case live(LiveNamespace)
        /// Asked for and not there: not looked up again before this monotonic millisecond.
        case missing(until: Milliseconds)
    }

    /// How long a name that doesn't exist is remembered: it bounds what asking for invented names costs the database.
    private static let missingMilliseconds: Milliseconds = 1_000
    private static let maxMissing = 10_000

    fileprivate struct State {
        var slots: [String: Slot] = [:]
        var byID: [Int64: LiveNamespace] = [:]
        var missingCount = 0
    }
    private let state = Mutex(State())
    private let now: @Sendable () -> Milliseconds

    /// - Parameter now: monotonic milliseconds.
    init(now: @escaping @Sendable () -> Milliseconds = { Clock.monotonicMilliseconds }) { self.now = now }

    func live(_ name: String) -> LiveNamespace? {
        state.withLock { state in
            if case .live(let namespace) = state.slots[name] { namespace } else { nil }
        }
    }

    func live(id: Int64) -> LiveNamespace? { state.withLock { $0.byID[id] } }

    var all: [LiveNamespace] { state.withLock { Array($0.byID.values) } }

    /// Calls back with the namespace, now or once it is loaded. True when the caller has to see that it is.
    func request(_ name: String, _ completion: @escaping Completion) -> Bool {
        enum Answer {
            case now(Result<LiveNamespace, EngineError>)
            case later, load
        }
        let answer = state.withLock { state -> Answer in
            switch state.slots[name] {
            case .live(let namespace): return .now(.success(namespace))
            case .loading(let others):
                state.slots[name] = .loading(others + [completion])
                return .later
            case .missing(let until) where until > now():
                return .now(.failure(.unknownNamespace(name)))
            case .missing, nil:
                state.slots[name] = .loading([completion])
                return .load
            }
        }
        switch answer {
        case .now(let result): completion(result)
        case .later: break
        case .load: return true
        }
        return false
    }

    /// The namespace is not in the database any more: who asks for its name next has it looked up anew.
    func forget(_ namespace: LiveNamespace) {
        state.withLock { state in
            if state.byID[namespace.id] === namespace { state.byID[namespace.id] = nil }
            if case .live(let live) = state.slots[namespace.name], live === namespace {
                state.slots[namespace.name] = nil
            }
        }
    }

    func loaded(_ name: String, _ result: Result<LiveNamespace, EngineError>) {
        let waiting = state.withLock { state -> [Completion] in
            let slot = state.slots[name]
            switch result {
            case .success(let namespace):
                state.slots[name] = .live(namespace)
                state.byID[namespace.id] = namespace
            case .failure(.unknownNamespace):
                if state.missingCount >= Self.maxMissing { state.forgetMissing() }
                state.missingCount += 1
                state.slots[name] = .missing(until: now() + Self.missingMilliseconds)
            case .failure: state.slots[name] = nil
            }
            if case .loading(let waiting) = slot { return waiting }
            return []
        }
        for completion in waiting { completion(result) }
    }
}

extension NamespaceTable.State {
    fileprivate mutating func forgetMissing() {
        slots = slots.filter { if case .missing = $0.value { false } else { true } }
        missingCount = 0
    }
}
