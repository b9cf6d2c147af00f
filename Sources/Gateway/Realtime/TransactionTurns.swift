/// The clients that contend for one path with conditional writes, in the order in which they first failed. One client
/// at a time has the slot. The other clients wait, because its writes would cause theirs to be refused, and SDKs give up
/// after 25 refusals.
///
/// Each gateway has its own queues. If a client fails repeatedly in its slot, the contention comes from another
/// gateway's clients. This gateway then asks the other ones to give that client the next slot, and each of them queues
/// a remote for it.
///
/// A state machine: callers pass the time as monotonic milliseconds, and receive the actions as results.
struct TransactionTurns {
    /// A slot that has begun: its session sends its waiting write, if any.
    struct Slot: Equatable, Sendable {
        let session: String
        /// Unique among all entries of a queue.
        let ticket: UInt64
        let isRemote: Bool
    }

    /// A notification to other gateways.
    enum Notice: Equatable {
        case asks
        case isDone
    }

    /// The actions that follow from an event.
    struct Outcome: Equatable {
        /// The slot that begins, if any.
        var next: Slot?
        var notice: Notice?
    }

    /// The handling of a write that arrives.
    enum Arrival: Equatable {
        case isSent
        /// The write waits for its slot, or until the session has another request.
        case waits
        /// The write waits for its slot, and so do later requests of the session.
        case holds
    }

    private struct Member {
        let ticket: UInt64
        /// Whether a write of the session waits for its slot.
        var isWaiting = false
        /// Whether a write of the session is in flight.
        var isSending = false
        /// The number of refusals since the session joined the queue.
        var refusals = 0
        /// The number of these refusals while the session had the slot.
        var refusalsInSlot = 0
        /// Whether other gateways were asked to give the session the next slot.
        var hasAsked = false
    }

    /// The number of refusals in the slot after which other gateways are asked. Two are usual: the one that made the
    /// client wait here, and the one of the write that it had sent before.
    static let refusalsBeforeAsking = 4
    /// The number of refusals after which later requests of a session wait for its write. Otherwise a client that also
    /// writes other paths would never wait for its slot, and would use up the 25 attempts of its SDK first.
    static let refusalsBeforeHolding = 3

    private var members: [String: Member] = [:]
    /// The queue's entries. Entries of sessions that have left are skipped: their tickets differ from the members'.
    private var slots: [Slot] = []
    private var firstSlot = 0
    private var nextTicket: UInt64 = 0
    private var slotBegan: Int64 = 0
    private var lastSign: Int64 = 0

    var isEmpty: Bool { members.isEmpty }

    // MARK: Clients

    /// Handles a session's new write.
    ///
    /// - Parameter mayWait: false if later requests are already waiting.
    mutating func arrives(_ session: String, mayWait: Bool, at now: Int64) -> Arrival {
        if isEmpty { return .isSent }
        let hasSlot = current?.session == session
        if hasSlot { lastSign = now }
        let isToHold = members[session].map { $0.refusals >= Self.refusalsBeforeHolding } ?? false
        if hasSlot || !mayWait && !isToHold {
            members[session]?.isSending = true
            return .isSent
        }
        join(session)
        members[session]?.isWaiting = true
        return isToHold ? .holds : .waits
    }

    /// Handles that the session sends its waiting write before its slot. The session stays in the queue.
    mutating func sendsEarly(_ session: String) {
        members[session]?.isWaiting = false
        members[session]?.isSending = true
    }

    /// Handles that the session's write was refused because the value has changed. The session joins the queue.
    mutating func wasRefused(_ session: String, at now: Int64) -> Outcome {
        let wasEmpty = isEmpty
        join(session)
        members[session]?.isSending = false
        members[session]?.refusals += 1
        if wasEmpty { return Outcome(next: begin(at: now)) }
        guard current?.session == session else { return Outcome() }
        lastSign = now
        members[session]?.refusalsInSlot += 1
        guard let member = members[session], member.refusalsInSlot >= Self.refusalsBeforeAsking
        else { return Outcome() }
        // Repeated each time, to show the other gateways that the client still needs the slot.
        members[session]?.hasAsked = true
        return Outcome(notice: .asks)
    }

    /// Handles that the session or remote has succeeded or ended.
    mutating func leaves(_ session: String, at now: Int64) -> Outcome {
        let hadSlot = current?.session == session
        guard let member = members.removeValue(forKey: session) else { return Outcome() }
        return Outcome(next: hadSlot ? begin(at: now) : nil, notice: member.hasAsked ? .isDone : nil)
    }

    // MARK: Remotes

    /// Handles another gateway's request for the next slot for its client.
    mutating func asks(_ remote: String, at now: Int64) -> Outcome {
        guard members[remote] == nil else {
            if current?.session == remote { lastSign = now }
            return Outcome()
        }
        let wasEmpty = isEmpty
        nextTicket += 1
        members[remote] = Member(ticket: nextTicket)
        let slot = Slot(session: remote, ticket: nextTicket, isRemote: true)
        slots.insert(slot, at: wasEmpty ? slots.endIndex : firstSlot + 1)
        return Outcome(next: wasEmpty ? begin(at: now) : nil)
    }

    // MARK: Time

    /// The state of a slot.
    enum Check: Equatable {
        /// The slot has already ended.
        case over
        /// The slot continues; check again after this many milliseconds.
        case continues(Int64)
        /// The session was idle for too long.
        case expired(Outcome)
    }

    /// Ends a slot whose session keeps the others waiting: `patience` milliseconds without activity, or eight times
    /// that altogether.
    mutating func check(_ slot: Slot, patience: Int64, at now: Int64) -> Check {
        guard current == slot, let member = members[slot.session] else { return .over }
        let left = min(lastSign + patience, slotBegan + 8 * patience) - now
        if left > 0 { return .continues(left) }
        // The client is not responsible for the duration of its write.
        if member.isSending { return .continues(patience) }
        return .expired(leaves(slot.session, at: now))
    }

    // MARK: Entries

    private var current: Slot? { firstSlot < slots.count ? slots[firstSlot] : nil }

    private mutating func join(_ session: String) {
        guard members[session] == nil else { return }
        nextTicket += 1
        members[session] = Member(ticket: nextTicket)
        slots.append(Slot(session: session, ticket: nextTicket, isRemote: false))
    }

    /// Begins the slot of the first session that has not left.
    private mutating func begin(at now: Int64) -> Slot? {
        while let slot = current, members[slot.session]?.ticket != slot.ticket { firstSlot += 1 }
        if firstSlot > 32, firstSlot * 2 > slots.count {
            slots.removeFirst(firstSlot)
            firstSlot = 0
        }
        slotBegan = now
        lastSign = now
        guard let slot = current else { return nil }
        if members[slot.session]?.isWaiting == true { sendsEarly(slot.session) }
        return slot
    }
}
