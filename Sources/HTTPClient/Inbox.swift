internal import Runtime

/// The requests that wait for a slot of the client's thread, shared fairly between groups and their members.
///
/// Any thread may use it. Each operation takes O(log n) for n requests that wait.
final class Inbox: Sendable {
    /// The place of a request that is under way.
    struct Slot: Sendable, Equatable {
        let group: String
        let member: String
    }

    struct Item: Sendable {
        let id: HTTPClient.RequestID
        let request: ClientRequest
        /// When `send` was called, on the monotonic clock.
        let sentAt: Milliseconds
        let completion: HTTPClient.Completion

        var slot: Slot { Slot(group: request.group, member: request.member) }

        /// When the request stops waiting for a slot.
        var queueDeadline: Milliseconds {
            sentAt + (request.queueMilliseconds ?? request.timeoutMilliseconds)
        }

        /// Whether there is time left for a request that has a slot now.
        func mayBegin(at now: Milliseconds) -> Bool { request.queueMilliseconds != nil || now < queueDeadline }
    }

    private struct State: Sendable {
        var queue: FairQueue<String, String, Item>
        var tickets: [HTTPClient.RequestID: FairQueue<String, String, Item>.Ticket] = [:]
        var cancelled: [HTTPClient.RequestID] = []
        var isClosed = false
    }

    /// What the client's thread does next.
    struct Work: Sendable {
        /// Requests that have a slot. Each ends with `done`.
        var items: [Item] = []
        /// Requests that have waited too long.
        var expired: [Item] = []
        /// Requests that were cancelled after they had a slot.
        var cancelled: [HTTPClient.RequestID] = []
        /// When the next request that waits has waited too long.
        var nextDeadline: Milliseconds?
        var isClosed = false
    }

    private let poller: SocketPoller
    private let state: MutexBox<State>

    init(_ poller: SocketPoller, slots: Int, places: Int) {
        self.poller = poller
        state = MutexBox(State(queue: FairQueue(slots: slots, places: places)))
    }

    /// Lets a request wait.
    ///
    /// - Returns: The reason for a refusal, or nil.
    func add(_ item: Item) -> HTTPClientError? {
        let refusal = state.withLock { state -> HTTPClientError? in
            if state.isClosed { return .refused("the client has stopped") }
            let ticket = state.queue.add(
                item, for: item.request.member, of: item.request.group, isUrgent: item.request.isUrgent,
                deadline: item.queueDeadline)
            guard let ticket else { return .notSent("too many requests wait") }
            state.tickets[item.id] = ticket
            return nil
        }
        if refusal == nil { poller.wake() }
        return refusal
    }

    /// Takes the requests that may begin; all of them once the inbox is closed.
    func take(at now: Milliseconds) -> Work {
        state.withLock { state in
            var work = Work()
            work.isClosed = state.isClosed
            if state.isClosed {
                work.items = state.queue.removeAll()
            } else {
                // Before others expire: a request that may not wait has a slot if one is free.
                while let served = state.queue.next() {
                    guard served.item.mayBegin(at: now) else {
                        state.queue.finish(served.member, of: served.group)
                        work.expired.append(served.item)
                        continue
                    }
                    work.items.append(served.item)
                }
                work.expired += state.queue.expire(at: now)
            }
            for item in work.expired + work.items { state.tickets[item.id] = nil }
            swap(&work.cancelled, &state.cancelled)
            work.nextDeadline = state.queue.nextDeadline
            return work
        }
    }

    /// Ends a request that waits at once; the client's thread ends a request that has a slot.
    func cancel(_ id: HTTPClient.RequestID) {
        let waiting = state.withLock { state -> Item? in
            if let ticket = state.tickets.removeValue(forKey: id) { return state.queue.remove(ticket) }
            if !state.isClosed { state.cancelled.append(id) }
            return nil
        }
        if let waiting { return waiting.completion(.failure(.cancelled)) }
        poller.wake()
    }

    /// Frees the slot of a request.
    func done(_ slot: Slot) {
        state.withLock { $0.queue.finish(slot.member, of: slot.group) }
    }

    func close() {
        state.withLock { $0.isClosed = true }
        poller.wake()
    }
}

/// The slots of requests that ended while the system still resolves their server's name. A value, in the order of the due times.
///
/// libcurl leaves such a name to a thread that runs until the system's resolver gives up. The slot stays in use meanwhile, so that the slots
/// bound these threads, too, however short the timeouts of the requests are.
struct HeldSlots {
    private struct Held {
        let slot: Inbox.Slot
        let due: Milliseconds
    }

    /// How long a slot is held after its request ended.
    static let milliseconds: Milliseconds = 10_000

    private var held: [Held] = []
    /// The slots before this index are released.
    private var first = 0

    /// Holds the slot of a request that ended at `now`. Calls must come in the order of time.
    mutating func hold(_ slot: Inbox.Slot, at now: Milliseconds) {
        held.append(Held(slot: slot, due: now + Self.milliseconds))
    }

    /// Removes the slots that are due.
    ///
    /// - Returns: The slots, oldest first.
    mutating func release(at now: Milliseconds) -> [Inbox.Slot] {
        var released: [Inbox.Slot] = []
        while first < held.count, held[first].due <= now {
            released.append(held[first].slot)
            first += 1
        }
        // Each removal moves at most as many slots as were released since the last one.
        if first * 2 >= held.count {
            held.removeSubrange(..<first)
            first = 0
        }
        return released
    }

    /// When the next slot is due; nil if none is held.
    var nextDue: Milliseconds? { first < held.count ? held[first].due : nil }
}
