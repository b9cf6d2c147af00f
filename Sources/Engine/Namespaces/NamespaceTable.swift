import Runtime
import Synchronization

/// The namespaces in memory and those that are being loaded.
final class NamespaceTable: Sendable {
    typealias Completion = @Sendable (Result<LiveNamespace, EngineError>) -> Void

    enum Slot: Sendable {
        case loading(Loading)
        /// The slot in `residents`.
        case live(Int)
        /// The namespace was requested and does not exist; it is not looked up again before this monotonic millisecond.
        case missing(until: Milliseconds)
    }

    /// A request that waits for a namespace.
    struct Waiter: Sendable {
        let complete: Completion
        /// May answer before the namespace is loaded. Nil if the request needs the namespace in any case.
        let refusal: EarlyRefusal?
    }

    /// The requests that wait for a namespace, in order of arrival.
    struct Loading: Sendable {
        var waiting: [Waiter] = []
        /// The namespace has arrived from another database since the load started, so the load may have read its former
        /// state here.
        var isOutdated = false
        /// The namespace may have arrived from another database since the load started.
        var isSuspect = false
    }

    /// Time for which the table remembers that a name does not exist. It limits the database load caused by requests
    /// for invented names.
    private static let missingMilliseconds: Milliseconds = 1_000
    private static let maxMissing = 10_000

    struct State {
        var slots: [String: Slot] = [:]
        var byID: [Int64: Int] = [:]
        /// The table's only reference to each namespace. All other references come from this table, or from code that
        /// got one here.
        var residents: [LiveNamespace?] = []
        var freeIndices: [Int] = []
        var recency = RecencyList()
        var missingCount = 0
        /// The namespace that is not evicted although it is unused.
        var kept: Int64?
        /// Announced heads of namespaces that are being loaded; 0 if none was announced yet.
        var announced: [Int64: Int64] = [:]
    }
    let state = Mutex(State())
    let now: @Sendable () -> Milliseconds

    /// - Parameter now: Monotonic milliseconds. It is read with every request.
    init(now: @escaping @Sendable () -> Milliseconds = { Clock.coarseMilliseconds }) { self.now = now }

    /// Returns the namespace if it is loaded, and counts that as a use.
    func live(_ name: String) -> LiveNamespace? {
        state.withLock { state in
            guard case .live(let index) = state.slots[name] else { return nil }
            state.recency.use(index, at: now())
            return state.residents[index]
        }
    }

    /// Returns the namespace with this id if it is loaded. Does not count as a use, because writes of other gateways do
    /// not keep a namespace in memory.
    func live(id: Int64) -> LiveNamespace? {
        state.withLock { state in state.byID[id].flatMap { state.residents[$0] } }
    }

    var all: [LiveNamespace] { state.withLock { $0.residents.compactMap { $0 } } }

    var count: Int { state.withLock { $0.recency.count } }

    /// Calls back with the namespace, now or once it is loaded. Returns true if the caller has to load it.
    ///
    /// - Parameter refusal: May answer instead, before the namespace is loaded.
    func request(_ name: String, unless refusal: EarlyRefusal? = nil, _ completion: @escaping Completion) -> Bool {
        enum Answer {
            case now(Result<LiveNamespace, EngineError>)
            case later, load
        }
        let answer = state.withLock { state -> Answer in
            switch state.slots[name] {
            case .live(let index):
                state.recency.use(index, at: now())
                guard let namespace = state.residents[index] else { return .load }
                return .now(.success(namespace))
            case .loading(var loading):
                // Removed first: a second reference to the list would make each request copy it.
                state.slots[name] = .loading(Loading())
                loading.waiting.append(Waiter(complete: completion, refusal: refusal))
                state.slots[name] = .loading(loading)
                return .later
            case .missing(let until) where until > now():
                return .now(.failure(.unknownNamespace(name)))
            case .missing, nil:
                state.slots[name] = .loading(Loading(waiting: [Waiter(complete: completion, refusal: refusal)]))
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

    /// Removes a namespace that is no longer in the database, so that the next request for its name looks it up again.
    func forget(_ namespace: LiveNamespace) {
        state.withLock { state in
            guard let index = state.byID[namespace.id], state.residents[index] === namespace else { return }
            _ = state.takeOut(index)
        }
    }

    /// Prepares for a namespace that arrives from another database: requests no longer get the state that was read
    /// before.
    ///
    /// - Parameter wasAway: false if the namespace may have been here all the time; then the state that was read is
    ///   compared with the database.
    /// - Returns: the namespace, if it was loaded.
    func expect(_ name: String, wasAway: Bool) -> LiveNamespace? {
        state.withLock { state in
            switch state.slots[name] {
            case .live(let index): return wasAway ? state.takeOut(index) : state.residents[index]
            case .loading(var loading):
                state.slots[name] = .loading(Loading())
                if wasAway {
                    loading.isOutdated = true
                } else {
                    loading.isSuspect = true
                }
                state.slots[name] = .loading(loading)
            case .missing: state.slots[name] = nil
            case nil: break
            }
            return nil
        }
    }

    private static func isStop(_ result: Result<LiveNamespace, EngineError>) -> Bool {
        if case .failure(.stopping) = result { true } else { false }
    }

    /// Discards the result of a load that will be repeated from the start later.
    func restarts(_ name: String) {
        state.withLock { state in
            guard case .loading(var loading) = state.slots[name] else { return }
            state.slots[name] = .loading(Loading())
            loading.isOutdated = false
            state.slots[name] = .loading(loading)
        }
    }

    /// Ends a load, and answers the waiting requests.
    ///
    /// - Returns: false if the namespace has to be loaded once more because it has arrived from another database
    ///   meanwhile. The requests keep waiting.
    @discardableResult
    func loaded(_ name: String, _ result: Result<LiveNamespace, EngineError>) -> Bool {
        // Freed outside the lock.
        var former: LiveNamespace?
        let loading = state.withLock { state -> Loading? in
            var loading = Loading()
            if case .loading(let known) = state.slots[name] { loading = known }
            if loading.isOutdated, !Self.isStop(result) {
                state.slots[name] = .loading(Loading())
                loading.isOutdated = false
                state.slots[name] = .loading(loading)
                return nil
            }
            switch result {
            case .success(let namespace):
                // A different loaded namespace with this id has lost its name to the new one.
                if let index = state.byID[namespace.id] { former = state.takeOut(index) }
                let index = state.freeIndices.popLast() ?? state.residents.count
                if index == state.residents.count { state.residents.append(namespace) }
                state.residents[index] = namespace
                state.recency.append(index, at: now())
                state.slots[name] = .live(index)
                state.byID[namespace.id] = index
            case .failure(.unknownNamespace):
                if state.missingCount >= Self.maxMissing { state.forgetMissing() }
                state.missingCount += 1
                state.slots[name] = .missing(until: now() + Self.missingMilliseconds)
            case .failure: state.slots[name] = nil
            }
            return loading
        }
        guard let loading else { return false }
        if loading.isSuspect, case .success(let namespace) = result { namespace.suspect() }
        for waiter in loading.waiting { waiter.complete(result) }
        withExtendedLifetime(former) {}
        return true
    }
}

extension NamespaceTable.State {
    /// Removes a namespace and returns the table's reference to it.
    mutating func takeOut(_ index: Int) -> LiveNamespace? {
        guard let namespace = residents[index] else { return nil }
        residents[index] = nil
        recency.remove(index)
        freeIndices.append(index)
        byID[namespace.id] = nil
        if case .live(index) = slots[namespace.name] { slots[namespace.name] = nil }
        return namespace
    }

    fileprivate mutating func forgetMissing() {
        slots = slots.filter { if case .missing = $0.value { false } else { true } }
        missingCount = 0
    }
}

/// Eviction of namespaces.
extension NamespaceTable {
    /// Removes and returns the least recently used namespace that is unused; nil if there was none among those checked.
    /// The caller gets the last reference, and frees the tree by dropping it: never with a lock held.
    ///
    /// All code that uses a namespace has a reference to it, or is one of its listeners. References come from this
    /// table, under its lock, or from code that has one. If the table has the only reference, no other can be made
    /// while the lock is held. So there are never two instances of one namespace.
    ///
    /// - Parameters:
    ///   - most: maximum number of namespaces that are checked. One that is in use counts as used now, and is not
    ///     checked again before all others.
    ///   - milliseconds: A namespace that was used within this time counts as in use.
    ///   - sizes: Sizes of namespaces, in bytes, for which the time of the last use does not count.
    ///   - spared: The slot of the namespace that the search spared last. The search continues after it, and begins
    ///     with the least recently used one if it is nil.
    func takeUnused(
        most: Int, sparing milliseconds: Milliseconds = 0, notSparing sizes: Range<Int> = 0..<0,
        after spared: inout Int?
    ) -> LiveNamespace? {
        let now = self.now()
        return state.withLock { state in
            var next = state.recency.first
            if let index = spared, state.residents[index] != nil { next = state.recency.next(after: index) }
            for _ in 0..<min(most, state.recency.count) {
                guard let index = next else {
                    spared = nil
                    return nil
                }
                next = state.recency.next(after: index)
                if now - state.recency.lastUse(of: index) < milliseconds {
                    // All others were used later.
                    if sizes.isEmpty { return nil }
                    guard let bytes = state.residents[index]?.memory.bytes, sizes.contains(bytes) else {
                        spared = index
                        continue
                    }
                }
                if let kept = state.kept, state.byID[kept] == index {
                    state.recency.use(index, at: now)
                    continue
                }
                if isKnownUniquelyReferenced(&state.residents[index]), state.residents[index]?.isUnused == true {
                    return state.takeOut(index)
                }
                // Callbacks for a seq that never arrives hold references.
                state.residents[index]?.forgetDueWaiters(now: Clock.monotonicMilliseconds)
                state.recency.use(index, at: now)
            }
            return nil
        }
    }

    /// Removes and returns the least recently used namespace that is unused, starting from the least recently used one.
    func takeUnused(most: Int, sparing milliseconds: Milliseconds = 0, notSparing sizes: Range<Int> = 0..<0)
        -> LiveNamespace?
    {
        var spared: Int?
        return takeUnused(most: most, sparing: milliseconds, notSparing: sizes, after: &spared)
    }

    /// Protects a namespace from eviction until another one is kept instead. Returns false if it was already kept.
    func keep(_ namespace: LiveNamespace) -> Bool {
        state.withLock { state in
            defer { state.kept = namespace.id }
            return state.kept != namespace.id
        }
    }

    /// Permits the eviction of the namespace with this memory again, if it is the kept one.
    func endKeeping(_ memory: NamespaceMemory) {
        state.withLock { state in
            guard let kept = state.kept, let index = state.byID[kept], state.residents[index]?.memory === memory else {
                return
            }
            state.kept = nil
        }
    }

    /// The memory of the kept namespace; nil if none is kept.
    var keptMemory: NamespaceMemory? {
        state.withLock { state in
            guard let kept = state.kept, let index = state.byID[kept] else { return nil }
            return state.residents[index]?.memory
        }
    }

    // MARK: Announcements

    /// Starts to keep the announced heads of a namespace that is about to be read, until `takeAnnounced`.
    func watchAnnouncements(of id: Int64) { state.withLock { $0.announced[id] = 0 } }

    /// Returns the highest head announced since `watchAnnouncements`; 0 if none.
    func announcedHead(of id: Int64) -> Int64 { state.withLock { $0.announced[id] ?? 0 } }

    /// Returns the highest head announced while the namespace was read, and stops keeping it; 0 if none.
    func takeAnnounced(of id: Int64) -> Int64 {
        state.withLock { $0.announced.removeValue(forKey: id) ?? 0 }
    }

    /// Records an announced commit. Returns the namespace if it is loaded.
    func announced(_ id: Int64, head: Int64) -> LiveNamespace? {
        state.withLock { state in
            if let known = state.announced[id] { state.announced[id] = max(known, head) }
            return state.byID[id].flatMap { state.residents[$0] }
        }
    }
}

/// Requests that wait for a namespace and that its rules refuse independently of the tree, so that the tree is not read
/// for them.
extension NamespaceTable {
    /// Returns the number of requests that wait for a namespace being loaded, or 0 if one of them needs the tree in any
    /// case.
    func countRefusable(_ name: String) -> Int {
        state.withLock { state in
            guard case .loading(let loading) = state.slots[name],
                loading.waiting.allSatisfy({ $0.refusal != nil })
            else { return 0 }
            return loading.waiting.count
        }
    }

    /// The loader's next step, once the rules have been applied to the waiting requests.
    enum AfterRefusals {
        /// A request needs the tree: the load continues.
        case continues
        /// More requests have arrived, for which these rules may be outdated: the rules are read again.
        case judgesAgain
        /// No request waits any more: the load ends, and the table forgets the name.
        case ends
    }

    /// Applies the rules to the requests that have waited longest for a namespace.
    ///
    /// - Parameter count: The number of requests that had arrived before the rules were read.
    func refuse(_ count: Int, of name: String, by rules: RulesVersion) -> AfterRefusals {
        // Without the lock: evaluating rules takes time, and an answer may lead back to this table.
        let left = takeFirst(count, of: name).filter { waiter in waiter.refusal?.answers(rules) != true }
        return state.withLock { state in
            guard case .loading(var loading) = state.slots[name] else { return .continues }
            // Removed first: a second reference to the lists would cause copies.
            state.slots[name] = .loading(Loading())
            let isJudged = left.isEmpty && loading.waiting.allSatisfy { $0.refusal != nil }
            loading.waiting = left + loading.waiting
            if isJudged, loading.waiting.isEmpty {
                state.slots[name] = nil
                return .ends
            }
            state.slots[name] = .loading(loading)
            return isJudged ? .judgesAgain : .continues
        }
    }

    private func takeFirst(_ count: Int, of name: String) -> [Waiter] {
        state.withLock { state in
            guard case .loading(var loading) = state.slots[name] else { return [] }
            state.slots[name] = .loading(Loading())
            let taken = Array(loading.waiting.prefix(count))
            loading.waiting.removeFirst(taken.count)
            state.slots[name] = .loading(loading)
            return taken
        }
    }
}

/// Answers a request that waits for a namespace before the tree is read, if the stored rules refuse it independently of
/// the tree. Called on a loader's thread, without locks.
struct EarlyRefusal: Sendable {
    /// Answers the request and returns true if the rules alone refuse it; returns false otherwise.
    let answers: @Sendable (_ rules: RulesVersion) -> Bool
}
