import Runtime
import Synchronization

/// The namespaces that are in use, and those that are being loaded.
final class NamespaceTable: Sendable {
    typealias Completion = @Sendable (Result<LiveNamespace, EngineError>) -> Void

    enum Slot: Sendable {
        case loading(Loading)
        /// By its place among the residents.
        case live(Int)
        /// Asked for and not there: not looked up again before this monotonic millisecond.
        case missing(until: Milliseconds)
    }

    /// A request that waits for a namespace.
    struct Waiter: Sendable {
        let complete: Completion
        /// May answer before the namespace is loaded. Nil if the request needs the namespace in any case.
        let refusal: EarlyRefusal?
    }

    /// Those who wait for a namespace, in the order in which they came.
    struct Loading: Sendable {
        var waiting: [Waiter] = []
        /// It has come from another database since its reading began: what is read may be what was here before.
        var isOutdated = false
        /// It may have.
        var isSuspect = false
    }

    /// How long a name that doesn't exist is remembered: it bounds what asking for invented names costs the database.
    private static let missingMilliseconds: Milliseconds = 1_000
    private static let maxMissing = 10_000

    struct State {
        var slots: [String: Slot] = [:]
        var byID: [Int64: Int] = [:]
        /// The table's one reference to each namespace: who else has one got it here, or from somebody who did.
        var residents: [LiveNamespace?] = []
        var freePlaces: [Int] = []
        var recency = RecencyList()
        var missingCount = 0
        /// The namespace that is not let go although nobody uses it.
        var kept: Int64?
        /// Heads that were announced of namespaces that are being loaded; 0 where none was yet.
        var announced: [Int64: Int64] = [:]
    }
    let state = Mutex(State())
    let now: @Sendable () -> Milliseconds

    /// - Parameter now: Monotonic milliseconds. It is read with every request.
    init(now: @escaping @Sendable () -> Milliseconds = { Clock.coarseMilliseconds }) { self.now = now }

    /// The namespace, if it is loaded: that is a use of it.
    func live(_ name: String) -> LiveNamespace? {
        state.withLock { state in
            guard case .live(let place) = state.slots[name] else { return nil }
            state.recency.use(place, at: now())
            return state.residents[place]
        }
    }

    /// The same by its id. No use of it: what other gateways write does not keep a namespace here.
    func live(id: Int64) -> LiveNamespace? {
        state.withLock { state in state.byID[id].flatMap { state.residents[$0] } }
    }

    var all: [LiveNamespace] { state.withLock { $0.residents.compactMap { $0 } } }

    var count: Int { state.withLock { $0.recency.count } }

    /// Calls back with the namespace, now or once it is loaded. True when the caller has to see that it is.
    ///
    /// - Parameter refusal: May answer instead, before the namespace is loaded.
    func request(_ name: String, unless refusal: EarlyRefusal? = nil, _ completion: @escaping Completion) -> Bool {
        enum Answer {
            case now(Result<LiveNamespace, EngineError>)
            case later, load
        }
        let answer = state.withLock { state -> Answer in
            switch state.slots[name] {
            case .live(let place):
                state.recency.use(place, at: now())
                guard let namespace = state.residents[place] else { return .load }
                return .now(.success(namespace))
            case .loading(var loading):
                // Taken out first: with another reference to it the list would be copied for each who asks.
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

    /// The namespace is not in the database any more: who asks for its name next has it looked up anew.
    func forget(_ namespace: LiveNamespace) {
        state.withLock { state in
            guard let place = state.byID[namespace.id], state.residents[place] === namespace else { return }
            _ = state.takeOut(place)
        }
    }

    /// A namespace is about to be looked for here, having been in another database: nobody gets what was read of it before.
    ///
    /// - Parameter wasAway: false where it may have been here all the time: then what was read has to be compared with the database.
    /// - Returns: the namespace, if it was there.
    func expect(_ name: String, wasAway: Bool) -> LiveNamespace? {
        state.withLock { state in
            switch state.slots[name] {
            case .live(let place): return wasAway ? state.takeOut(place) : state.residents[place]
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

    /// What was read of a namespace is thrown away, and it is read from its beginning later.
    func beginsAnew(_ name: String) {
        state.withLock { state in
            guard case .loading(var loading) = state.slots[name] else { return }
            state.slots[name] = .loading(Loading())
            loading.isOutdated = false
            state.slots[name] = .loading(loading)
        }
    }

    /// What has become of a namespace that was read.
    ///
    /// - Returns: false where it has to be read once more, as it has come from another database meanwhile. Who waits goes on waiting.
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
                // Another one of that id has lost its name to this one.
                if let place = state.byID[namespace.id] { former = state.takeOut(place) }
                let place = state.freePlaces.popLast() ?? state.residents.count
                if place == state.residents.count { state.residents.append(namespace) }
                state.residents[place] = namespace
                state.recency.append(place, at: now())
                state.slots[name] = .live(place)
                state.byID[namespace.id] = place
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
    /// Takes a namespace out, and gives up the table's reference to it.
    mutating func takeOut(_ place: Int) -> LiveNamespace? {
        guard let namespace = residents[place] else { return nil }
        residents[place] = nil
        recency.remove(place)
        freePlaces.append(place)
        byID[namespace.id] = nil
        if case .live(place) = slots[namespace.name] { slots[namespace.name] = nil }
        return namespace
    }

    fileprivate mutating func forgetMissing() {
        slots = slots.filter { if case .missing = $0.value { false } else { true } }
        missingCount = 0
    }
}

/// How namespaces leave memory.
extension NamespaceTable {
    /// Takes out the namespace that nobody uses and that was not used for the longest time; nil where none was found among
    /// so many. The caller has the last reference to it, and by dropping it frees the tree: never with a lock held.
    ///
    /// Who uses a namespace has a reference to it, or listens to it. References come from this table, under its lock, or
    /// from somebody who has one: where the table's is the only one, nobody can come by another while the lock is held. So
    /// there are never two of one namespace.
    ///
    /// - Parameters:
    ///   - most: how many are looked at. One that is in use counts as used now, and is not looked at again before
    ///     all others.
    ///   - milliseconds: A namespace that was used within this time counts as in use.
    ///   - sizes: Sizes of namespaces, in bytes, for which the time of the last use does not count.
    ///   - spared: The namespace that the search spared last, by its place. The search continues after it, and begins with the least
    ///     recently used one if it is nil.
    func takeUnused(
        most: Int, sparing milliseconds: Milliseconds = 0, notSparing sizes: Range<Int> = 0..<0,
        after spared: inout Int?
    ) -> LiveNamespace? {
        let now = self.now()
        return state.withLock { state in
            var next = state.recency.first
            if let place = spared, state.residents[place] != nil { next = state.recency.next(after: place) }
            for _ in 0..<min(most, state.recency.count) {
                guard let place = next else {
                    spared = nil
                    return nil
                }
                next = state.recency.next(after: place)
                if now - state.recency.lastUse(of: place) < milliseconds {
                    // All others were used later.
                    if sizes.isEmpty { return nil }
                    guard let bytes = state.residents[place]?.memory.bytes, sizes.contains(bytes) else {
                        spared = place
                        continue
                    }
                }
                if let kept = state.kept, state.byID[kept] == place {
                    state.recency.use(place, at: now)
                    continue
                }
                if isKnownUniquelyReferenced(&state.residents[place]), state.residents[place]?.isUnused == true {
                    return state.takeOut(place)
                }
                // Those who wait for what never comes refer to it.
                state.residents[place]?.forgetDueWaiters(now: Clock.monotonicMilliseconds)
                state.recency.use(place, at: now)
            }
            return nil
        }
    }

    /// The same from the least recently used one.
    func takeUnused(most: Int, sparing milliseconds: Milliseconds = 0, notSparing sizes: Range<Int> = 0..<0)
        -> LiveNamespace?
    {
        var spared: Int?
        return takeUnused(most: most, sparing: milliseconds, notSparing: sizes, after: &spared)
    }

    /// The namespace is not let go, until another is kept instead. False where it is so already.
    func keep(_ namespace: LiveNamespace) -> Bool {
        state.withLock { state in
            defer { state.kept = namespace.id }
            return state.kept != namespace.id
        }
    }

    /// The namespace with this memory is let go like any other again, if it is the one that is kept.
    func endKeeping(_ memory: NamespaceMemory) {
        state.withLock { state in
            guard let kept = state.kept, let place = state.byID[kept], state.residents[place]?.memory === memory else {
                return
            }
            state.kept = nil
        }
    }

    /// What the namespace takes that is kept; nil where none is.
    var keptMemory: NamespaceMemory? {
        state.withLock { state in
            guard let kept = state.kept, let place = state.byID[kept] else { return nil }
            return state.residents[place]?.memory
        }
    }

    // MARK: Announcements

    /// From now on what is announced of this namespace, which is about to be read, is kept until `takeAnnounced`.
    func watchAnnouncements(of id: Int64) { state.withLock { $0.announced[id] = 0 } }

    /// The head that has been announced since `watchAnnouncements`; 0 where none was.
    func announcedHead(of id: Int64) -> Int64 { state.withLock { $0.announced[id] ?? 0 } }

    /// The head that was announced while the namespace was read; 0 where none was.
    func takeAnnounced(of id: Int64) -> Int64 {
        state.withLock { $0.announced.removeValue(forKey: id) ?? 0 }
    }

    /// A commit was announced. The namespace, if it is loaded.
    func announced(_ id: Int64, head: Int64) -> LiveNamespace? {
        state.withLock { state in
            if let known = state.announced[id] { state.announced[id] = max(known, head) }
            return state.byID[id].flatMap { state.residents[$0] }
        }
    }
}

/// Requests that wait for a namespace and that its rules refuse whatever the tree holds: the tree is not read for them.
extension NamespaceTable {
    /// Returns how many requests wait for a namespace that is being loaded, or 0 if one of them needs the tree in any case.
    func countRefusable(_ name: String) -> Int {
        state.withLock { state in
            guard case .loading(let loading) = state.slots[name],
                loading.waiting.allSatisfy({ $0.refusal != nil })
            else { return 0 }
            return loading.waiting.count
        }
    }

    /// The loader's next step, once the rules have been applied to the requests that wait.
    enum AfterRefusals {
        /// A request needs the tree: the load continues.
        case goesOn
        /// More requests have arrived, and these rules may be older than they are: the rules are read again.
        case judgesAgain
        /// No request waits any more: the load ends, and the table forgets the name.
        case ends
    }

    /// Has the rules answer the requests that have waited for a namespace for longest.
    ///
    /// - Parameter count: How many requests had arrived before the rules were read.
    func refuse(_ count: Int, of name: String, by rules: RulesVersion) -> AfterRefusals {
        // Without the lock: evaluating rules takes time, and an answer may lead back to this table.
        let left = takeFirst(count, of: name).filter { waiter in waiter.refusal?.answers(rules) != true }
        return state.withLock { state in
            guard case .loading(var loading) = state.slots[name] else { return .goesOn }
            // Taken out first: with another reference to them the lists would be copied.
            state.slots[name] = .loading(Loading())
            let isJudged = left.isEmpty && loading.waiting.allSatisfy { $0.refusal != nil }
            loading.waiting = left + loading.waiting
            if isJudged, loading.waiting.isEmpty {
                state.slots[name] = nil
                return .ends
            }
            state.slots[name] = .loading(loading)
            return isJudged ? .judgesAgain : .goesOn
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

/// Answers a request that waits for a namespace before the tree is read, if the stored rules refuse it whatever the tree holds.
/// Called on a loader's thread, without locks.
struct EarlyRefusal: Sendable {
    /// Answers the request and returns true if the rules alone refuse it; returns false otherwise.
    let answers: @Sendable (_ rules: RulesVersion) -> Bool
}
