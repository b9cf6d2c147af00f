import Runtime
import Synchronization

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
    func takeUnused(
        most: Int, sparing milliseconds: Milliseconds = 0, notSparing sizes: Range<Int> = 0..<0
    ) -> LiveNamespace? {
        let now = self.now()
        return state.withLock { state in
            var next = state.recency.first
            for _ in 0..<min(most, state.recency.count) {
                guard let place = next else { return nil }
                next = state.recency.next(after: place)
                if now - state.recency.lastUse(of: place) < milliseconds {
                    // All others were used later.
                    if sizes.isEmpty { return nil }
                    guard let bytes = state.residents[place]?.memory.bytes, sizes.contains(bytes) else { continue }
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
