internal import CCurl
internal import Runtime

/// What waits for the client's thread, and the means to wake it.
///
/// @unchecked Sendable is safe: the requests are behind a lock; `multi` never changes, and all that other threads do with
/// it is `curl_multi_wakeup`, which libcurl allows; it is freed when neither the client nor its thread has it any more.
final class Inbox: @unchecked Sendable {
    struct Item: Sendable {
        let id: HTTPClient.RequestID
        let request: ClientRequest
        /// Of the monotonic clock: nothing is sent afterwards.
        let deadlineMilliseconds: Milliseconds
        let completion: HTTPClient.Completion
    }

    private struct State {
        /// In the order of arrival, from `first` on.
        var items: [Item] = []
        var first = 0
        /// Taken, but not done.
        var active = 0
        var cancelled: [HTTPClient.RequestID] = []
        var isClosed = false
    }

    /// What the client's thread is to do next.
    struct Work {
        let items: [Item]
        let cancelled: [HTTPClient.RequestID]
        let isClosed: Bool
    }

    let multi: UnsafeMutableRawPointer
    private let state = MutexBox(State())

    init(_ multi: UnsafeMutableRawPointer) { self.multi = multi }

    deinit { curl_multi_cleanup(multi) }

    /// Why the request is not taken, or nil.
    func add(_ item: Item, limit: Int) -> HTTPClientError? {
        let refusal = state.withLock { state -> HTTPClientError? in
            if state.isClosed { return .refused("the client has stopped") }
            guard state.items.count - state.first + state.active < limit else {
                return .refused("too many requests are under way")
            }
            state.items.append(item)
            return nil
        }
        if refusal == nil { curl_multi_wakeup(multi) }
        return refusal
    }

    /// The next requests, so many that at most `limit` are under way; all of them once the client is closed.
    func take(limit: Int) -> Work {
        state.withLock { state in
            let waiting = state.items.count - state.first
            let count = state.isClosed ? waiting : min(waiting, max(0, limit - state.active))
            let items = Array(state.items[state.first..<(state.first + count)])
            state.first += count
            state.active += count
            // Old ones go when they are half of all, so that taking costs the same however many wait.
            if state.first * 2 >= state.items.count {
                state.items.removeFirst(state.first)
                state.first = 0
            }
            defer { state.cancelled.removeAll() }
            return Work(items: items, cancelled: state.cancelled, isClosed: state.isClosed)
        }
    }

    /// Ends a request that waits, at once; the client's thread ends one that is under way.
    func cancel(_ id: HTTPClient.RequestID) {
        let waiting = state.withLock { state -> Item? in
            guard let index = state.items[state.first...].firstIndex(where: { $0.id == id }) else {
                state.cancelled.append(id)
                return nil
            }
            return state.items.remove(at: index)
        }
        if let waiting { return waiting.completion(.failure(.cancelled)) }
        curl_multi_wakeup(multi)
    }

    func done(_ count: Int) { state.withLock { $0.active -= count } }

    func close() {
        state.withLock { $0.isClosed = true }
        curl_multi_wakeup(multi)
    }
}
