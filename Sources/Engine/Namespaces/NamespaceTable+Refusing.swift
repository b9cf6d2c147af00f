import Synchronization

/// Those who wait for a namespace and need not, as its rules refuse them whatever is stored: the tree is not read for them.
extension NamespaceTable {
    /// How many wait for a namespace that is being loaded; 0 where one of them has to have its tree in any case.
    func countRefusable(_ name: String) -> Int {
        state.withLock { state in
            guard case .loading(let loading) = state.slots[name],
                loading.waiting.allSatisfy({ $0.refusal != nil })
            else { return 0 }
            return loading.waiting.count
        }
    }

    /// What has become of a load once rules have answered.
    enum AfterRefusals {
        /// Somebody waits for the tree.
        case goesOn
        /// Others have come whom these rules may be too old for.
        case judgesAgain
        /// Nobody waits any more, and the name is as if nobody had asked for it.
        case ends
    }

    /// Has rules answer those who have waited for a namespace for longest.
    ///
    /// - Parameters:
    ///   - count: How many had come before the rules were read.
    ///   - seq: The entry at which the rules hold.
    func refuse(_ count: Int, of name: String, by rules: RulesVersion, at seq: Int64) -> AfterRefusals {
        // Judged without the lock, and answered: that takes time, and who is answered may come here.
        let left = takeFirst(count, of: name).filter { waiter in waiter.refusal?.answers(rules, seq) != true }
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
