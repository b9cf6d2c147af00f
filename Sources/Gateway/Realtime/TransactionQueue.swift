/// The clients that contend for one path with conditional writes, in the order in which they first failed. One at a time
/// has the slot: the others' writes would only be refused because of what it wrote, and SDKs give up after 25 refusals.
///
/// Each gateway has queues of its own. A client that fails again and again in its slot does so because of another gateway's
/// clients. Then the other gateways are asked to let it go first, and each keeps a place in its queue for it: a remote.
///
/// A state machine: time comes in as monotonic milliseconds, and what is to be done goes out as results.
struct TransactionQueue {
    /// A slot that has begun: its session sends what it keeps waiting, if anything.
    struct Slot: Equatable, Sendable {
        let session: String
        /// Different for every place in every queue of its time.
        let ticket: UInt64
        let isRemote: Bool
    }

    /// What other gateways are to be told.
    enum Notice: Equatable {
        case asks
        case isDone
    }

    /// What follows from an event.
    struct Outcome: Equatable {
        /// The slot that begins with it.
        var next: Slot?
        var notice: Notice?
    }

    /// What becomes of a write that arrives.
    enum Arrival: Equatable {
        case isSent
        /// It waits for its slot, or until the session has another request.
        case waits
        /// It waits for its slot, and so do later requests of the session.
        case holds
    }

    private struct Member {
        let ticket: UInt64
        /// A write of it waits for its slot.
        var isWaiting = false
        /// A write of it is under way.
        var isSending = false
        /// Since it has a place.
        var refusals = 0
        /// Those among them that came while it had the slot.
        var refusalsInSlot = 0
        /// Other gateways were asked to let it go first.
        var hasAsked = false
    }

    /// From this refusal on other gateways are asked. Two are usual: that which made a client wait here, and that of what
    /// it sent before it knew.
    static let refusalsBeforeAsking = 4
    /// From this refusal on later requests of a session wait behind its write. A client that also writes elsewhere would
    /// otherwise never wait for its slot, and use up the 25 attempts of its SDK before it.
    static let refusalsBeforeHolding = 3

    private var members: [String: Member] = [:]
    /// Everybody's places. Whoever has left is skipped: its ticket is not its member's any more.
    private var places: [Slot] = []
    private var firstPlace = 0
    private var nextTicket: UInt64 = 0
    private var slotBegan: Int64 = 0
    private var lastSign: Int64 = 0

    var isEmpty: Bool { members.isEmpty }

    // MARK: Clients

    /// A session has a write.
    ///
    /// - Parameter mayWait: false if requests wait behind it.
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

    /// The session sends its waiting write before its slot. It keeps its place.
    mutating func sendsEarly(_ session: String) {
        members[session]?.isWaiting = false
        members[session]?.isSending = true
    }

    /// The session's write was refused for what the value is now. It has a place from now on.
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
        // Again each time: so the others see that it is still there.
        members[session]?.hasAsked = true
        return Outcome(notice: .asks)
    }

    /// The session (or remote) has done what it wanted, or is gone.
    mutating func leaves(_ session: String, at now: Int64) -> Outcome {
        let hadSlot = current?.session == session
        guard let member = members.removeValue(forKey: session) else { return Outcome() }
        return Outcome(next: hadSlot ? begin(at: now) : nil, notice: member.hasAsked ? .isDone : nil)
    }

    // MARK: Remotes

    /// Another gateway asks that its client go first. It goes next.
    mutating func asks(_ remote: String, at now: Int64) -> Outcome {
        guard members[remote] == nil else {
            if current?.session == remote { lastSign = now }
            return Outcome()
        }
        let wasEmpty = isEmpty
        nextTicket += 1
        members[remote] = Member(ticket: nextTicket)
        let place = Slot(session: remote, ticket: nextTicket, isRemote: true)
        places.insert(place, at: wasEmpty ? places.endIndex : firstPlace + 1)
        return Outcome(next: wasEmpty ? begin(at: now) : nil)
    }

    // MARK: Time

    /// What has become of a slot.
    enum Check: Equatable {
        /// It ended before.
        case over
        /// It goes on; look again after so many milliseconds.
        case goesOn(Int64)
        /// Its session did nothing for too long.
        case expired(Outcome)
    }

    /// Ends a slot whose session lets the others wait: `patience` milliseconds without a sign, or eight times that
    /// altogether.
    mutating func check(_ slot: Slot, patience: Int64, at now: Int64) -> Check {
        guard current == slot, let member = members[slot.session] else { return .over }
        let left = min(lastSign + patience, slotBegan + 8 * patience) - now
        if left > 0 { return .goesOn(left) }
        // The client is not to blame for the time that its write takes.
        if member.isSending { return .goesOn(patience) }
        return .expired(leaves(slot.session, at: now))
    }

    // MARK: Places

    private var current: Slot? { firstPlace < places.count ? places[firstPlace] : nil }

    private mutating func join(_ session: String) {
        guard members[session] == nil else { return }
        nextTicket += 1
        members[session] = Member(ticket: nextTicket)
        places.append(Slot(session: session, ticket: nextTicket, isRemote: false))
    }

    /// Begins the slot of the first who is still there.
    private mutating func begin(at now: Int64) -> Slot? {
        while let slot = current, members[slot.session]?.ticket != slot.ticket { firstPlace += 1 }
        if firstPlace > 32, firstPlace * 2 > places.count {
            places.removeFirst(firstPlace)
            firstPlace = 0
        }
        slotBegan = now
        lastSign = now
        guard let slot = current else { return nil }
        if members[slot.session]?.isWaiting == true { sendsEarly(slot.session) }
        return slot
    }
}
