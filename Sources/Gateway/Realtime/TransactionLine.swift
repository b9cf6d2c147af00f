/// The clients that contend for one path with conditional writes, in the order in which they first failed. One at a time
/// has its turn: the others' writes would only be refused because of what it wrote, and SDKs give up after 25 refusals.
///
/// A state machine: time comes in as monotonic milliseconds, and what is to be done goes out as results.
struct TransactionLine {
    /// A turn that has begun: its session sends what it keeps waiting, if anything.
    struct Turn: Equatable {
        let session: String
        /// Different for every place in every line of its time.
        let ticket: UInt64
    }

    private struct Member {
        let ticket: UInt64
        /// A write of it waits for its turn.
        var isWaiting: Bool
        /// A write of it is under way.
        var isSending = false
    }

    private var members: [String: Member] = [:]
    /// Everybody's places. Whoever has left is skipped: its ticket is not its member's any more.
    private var places: [Turn] = []
    private var firstPlace = 0
    private var nextTicket: UInt64 = 0
    private var turnBegan: Int64 = 0
    private var lastSign: Int64 = 0

    var isEmpty: Bool { members.isEmpty }
    var count: Int { members.count }

    /// A session has a write. True: it is to be sent now; false: it waits, for `Turn` or until the session no longer
    /// wants to wait.
    mutating func arrives(_ session: String, mayWait: Bool, at now: Int64) -> Bool {
        if isEmpty { return true }
        if current?.session == session {
            lastSign = now
            members[session]?.isSending = true
            return true
        }
        guard mayWait else {
            members[session]?.isSending = true
            return true
        }
        join(session)
        members[session]?.isWaiting = true
        return false
    }

    /// The session sends its waiting write before its turn. It keeps its place.
    mutating func sendsEarly(_ session: String) {
        members[session]?.isWaiting = false
        members[session]?.isSending = true
    }

    /// The session's write was refused for what the value is now. It has a place from now on.
    ///
    /// - Returns: its turn, when that begins with this.
    mutating func wasRefused(_ session: String, at now: Int64) -> Turn? {
        let wasEmpty = isEmpty
        join(session)
        members[session]?.isSending = false
        if wasEmpty { return begin(at: now) }
        if current?.session == session { lastSign = now }
        return nil
    }

    /// The session has done what it wanted, or is gone.
    ///
    /// - Returns: the turn that begins with this.
    mutating func leaves(_ session: String, at now: Int64) -> Turn? {
        let hadTurn = current?.session == session
        guard members.removeValue(forKey: session) != nil, hadTurn else { return nil }
        return begin(at: now)
    }

    /// What has become of a turn.
    enum Check: Equatable {
        /// It ended before.
        case over
        /// It goes on; look again after so many milliseconds.
        case goesOn(Int64)
        /// Its session did nothing for too long: the next turn, if anybody waits, begins.
        case expired(next: Turn?)
    }

    /// Ends a turn whose session lets the others wait: `patience` milliseconds without a sign, or eight times that
    /// altogether.
    mutating func check(_ turn: Turn, patience: Int64, at now: Int64) -> Check {
        guard current == turn, let member = members[turn.session] else { return .over }
        let left = min(lastSign + patience, turnBegan + 8 * patience) - now
        if left > 0 { return .goesOn(left) }
        // The client is not to blame for the time that its write takes.
        if member.isSending { return .goesOn(patience) }
        members[turn.session] = nil
        return .expired(next: begin(at: now))
    }

    private var current: Turn? { firstPlace < places.count ? places[firstPlace] : nil }

    private mutating func join(_ session: String) {
        guard members[session] == nil else { return }
        nextTicket += 1
        members[session] = Member(ticket: nextTicket, isWaiting: false)
        places.append(Turn(session: session, ticket: nextTicket))
    }

    /// Begins the turn of the first who is still there.
    private mutating func begin(at now: Int64) -> Turn? {
        while let turn = current, members[turn.session]?.ticket != turn.ticket { firstPlace += 1 }
        if firstPlace > 32, firstPlace * 2 > places.count {
            places.removeFirst(firstPlace)
            firstPlace = 0
        }
        turnBegan = now
        lastSign = now
        guard let turn = current else { return nil }
        if members[turn.session]?.isWaiting == true { sendsEarly(turn.session) }
        return turn
    }
}
