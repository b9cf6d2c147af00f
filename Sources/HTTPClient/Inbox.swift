internal import Runtime

/// The requests that wait for a slot of the client's thread, shared fairly between groups and their members.
///
/// Usable on any thread. Each operation takes O(log n) for n waiting requests.
final class Inbox: Sendable {
    /// The slot of a request in flight.
    struct Slot: Sendable, Equatable {
        let group: String
        let member: String
    }

    struct Item: Sendable {
        let id: HTTPClient.RequestID
        let request: HTTPClientRequest
        /// The time when `send` was called, in monotonic milliseconds.
        let sentAt: Milliseconds
        let completion: HTTPClient.Completion

        var slot: Slot { Slot(group: request.group, member: request.member) }

        /// The time until which the request waits for a slot, in monotonic milliseconds.
        var queueDeadline: Milliseconds {
            sentAt + (request.queueMilliseconds ?? request.timeoutMilliseconds)
        }

        /// Returns whether a request that has just got a slot still has time left.
        func mayBegin(at now: Milliseconds) -> Bool { request.queueMilliseconds != nil || now < queueDeadline }
    }

    private struct State: Sendable {
        var queue: FairQueue<String, String, Item>
        var tickets: [HTTPClient.RequestID: FairQueue<String, String, Item>.Ticket] = [:]
        var cancelled: [HTTPClient.RequestID] = []
        var isClosed = false
    }

    /// The next work of the client's thread.
    struct Work: Sendable {
        /// Requests that have a slot. The thread must call `done` when each ends.
        var items: [Item] = []
        /// Requests that have waited too long.
        var expired: [Item] = []
        /// Requests that were cancelled after they got a slot.
        var cancelled: [HTTPClient.RequestID] = []
        /// The time at which the next waiting request expires.
        var nextDeadline: Milliseconds?
        var isClosed = false
    }

    private let poller: SocketPoller
    private let state: MutexBox<State>

    init(_ poller: SocketPoller, slots: Int, capacity: Int) {
        self.poller = poller
        state = MutexBox(State(queue: FairQueue(slots: slots, capacity: capacity)))
    }

    /// Adds a request to the queue.
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

    /// Removes and returns the requests that may start, or all requests once the inbox is closed.
    func take(at now: Milliseconds) -> Work {
        state.withLock { state in
            var work = Work()
            work.isClosed = state.isClosed
            if state.isClosed {
                work.items = state.queue.removeAll()
            } else {
                // Slots are assigned before requests expire: a request with no time to wait gets a slot if one is free.
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

    /// Ends a waiting request at once. The client's thread ends a request that has a slot.
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

/// The slots of requests that ended while the system was still resolving their server's name. A value; slots are added and
/// released in the order of time.
///
/// libcurl leaves such a name to a thread that runs until the system's resolver gives up. The slot remains in use meanwhile, so
/// that the number of slots also limits the number of these threads, however short the requests' timeouts are.
struct HeldSlots {
    private struct Held {
        let slot: Inbox.Slot
        let due: Milliseconds
    }

    /// How long a slot is held after its request ended.
    static let milliseconds: Milliseconds = 10_000

    private var held: [Held] = []
    /// The slots before this index have been released.
    private var first = 0

    /// Holds the slot of a request that ended at `now`. Calls must be in the order of time.
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

    /// The time at which the next slot is due, or nil if none is held.
    var nextDue: Milliseconds? { first < held.count ? held[first].due : nil }
}
