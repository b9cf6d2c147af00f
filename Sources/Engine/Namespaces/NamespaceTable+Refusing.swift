import Synchronization

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
