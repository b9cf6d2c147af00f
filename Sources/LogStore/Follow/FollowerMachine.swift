import Tree

/// Decides the next request of a reader of a namespace's log, and turns the answers into events: pages, gaps, other
/// histories, entries of each kind, the end of the log and the wait there. A value without I/O and clock: `LogFollower`
/// executes its requests.
///
/// The position moves when an event is delivered. A page that could not be read is requested again, so no event is lost
/// or repeated, however often a connection is lost.
public struct FollowerMachine: Sendable {
    /// The treatment of missing entries.
    public enum Gaps: Sendable, Equatable {
        /// Missing entries end the reading until `restart(at:)`. A gap inside a page is an error, because pruning
        /// leaves none.
        case refused
        /// Missing entries are reported, and the reading continues after them.
        case reported
    }

    /// The settings of a reader. Every field has a default.
    public struct Settings: Sendable, Equatable {
        /// The maximum number of entries of a page.
        public var pageEntries = 1_000
        /// The approximate maximum number of bytes of changes in a page. A page always holds at least one entry.
        public var pageBytes = 16 << 20
        /// Whether each page is read together with the history record of the position, and compared with it.
        public var checksHistory = false
        /// The treatment of missing entries.
        public var gaps = Gaps.refused
        /// Whether entries with parts and entries with rules are separate events, in order with the others.
        public var separatesKinds = false
        /// The interval in which a reader at the end reads the log without an announcement. Nil for a reader that does
        /// not wait at the end.
        public var pollMilliseconds: Int64?

        public init() {}
    }

    /// A request for a page of the log.
    public struct PageRequest: Sendable, Equatable {
        /// The page starts after this entry and ends at `through` at the latest.
        public let after: Int64
        public let through: Int64
        public let entries: Int
        public let bytes: Int
        /// Whether to read the history record of position `after` as well.
        public let withHistory: Bool
    }

    /// The next action.
    public enum Ask: Sendable {
        /// Read the page; then call `received`. If reading fails, `next` requests the page again.
        case read(PageRequest)
        /// Deliver the event to the reader.
        case take(LogEvent)
        /// Wait for an announcement, at most `milliseconds`.
        case wait(milliseconds: Int64)
    }

    public let settings: Settings
    /// The last entry that was delivered.
    public private(set) var position: LogPosition
    /// The last entry to read. May change between two pages.
    public var bound: Int64
    /// The highest head announced since the last page request.
    private var announcedHead: Int64 = 0
    /// Events that were read and not delivered yet, in order.
    private var pending: [LogEvent] = []
    private var isAtEnd = false
    /// When a reader at the end reads the log again.
    private var nextPoll: Int64?

    /// - Parameters:
    ///   - position: the last entry that the reader has already.
    ///   - bound: the last entry to read.
    public init(at position: LogPosition, through bound: Int64 = .max, settings: Settings = Settings()) {
        self.position = position
        self.bound = bound
        self.settings = settings
    }

    /// Returns the next action.
    ///
    /// - Parameter now: a monotonic clock, in milliseconds. Used only by readers that wait.
    public mutating func next(at now: Int64 = 0) -> Ask {
        if !pending.isEmpty { return .take(handOut()) }
        guard position.seq < bound else { return .take(.end(head: nil)) }
        if isAtEnd {
            if let poll = settings.pollMilliseconds, announcedHead <= position.seq {
                let due = nextPoll ?? (now + poll)
                nextPoll = due
                if now < due { return .wait(milliseconds: due - now) }
            }
            isAtEnd = false
            nextPoll = nil
        }
        // The page will contain the entries announced until now, if there are any.
        announcedHead = 0
        return .read(
            PageRequest(
                after: position.seq, through: bound, entries: settings.pageEntries, bytes: settings.pageBytes,
                withHistory: settings.checksHistory))
    }

    /// Reports that the log was announced to reach `head`. Late and repeated announcements are harmless.
    public mutating func announced(head: Int64) { announcedHead = max(announcedHead, head) }

    /// Continues from another position, after the reader has loaded the state at that entry.
    public mutating func restart(at position: LogPosition) {
        self.position = position
        pending = []
        isAtEnd = false
        nextPoll = nil
        // The announced head may belong to a history that was rolled back. A later head is announced again.
        announcedHead = 0
    }

    /// Accepts the requested page.
    ///
    /// - Parameters:
    ///   - history: the history record of the position, if requested. Nil if the namespace does not exist.
    ///   - entries: the entries in order of their seqs. The first is the one after the position, or a later one.
    /// - Throws: `corrupt` if the seqs inside the page have a gap and gaps are refused.
    public mutating func received(history: HistoryRecord?, entries: [LoggedEntry]) throws(LogStoreError) {
        if settings.checksHistory {
            guard let history, history.relation(of: position) != .rolledBack else {
                pending = [.rolledBack(history)]
                return
            }
        }
        guard let first = entries.first?.entry.seq else { return ended(history) }
        let isUnknown =
            settings.checksHistory && history?.relation(of: position) == .unknown
        switch settings.gaps {
        case .refused:
            try Self.checkOrder(entries)
            guard first == position.seq + 1, !isUnknown else {
                pending = [.missing((position.seq + 1)..<first, read: entries)]
                return
            }
            queue(entries)
        case .reported: queueReportingGaps(entries)
        }
    }

    // MARK: Events

    private mutating func ended(_ history: HistoryRecord?) {
        if let head = history?.head, head > position.seq {
            // The head is after the position, but there are no entries up to it.
            pending = [.missing((position.seq + 1)..<(head + 1), read: [])]
            return
        }
        pending = [.end(head: history?.head)]
    }

    private static func checkOrder(_ entries: [LoggedEntry]) throws(LogStoreError) {
        var previous: Int64?
        for logged in entries {
            if let previous, logged.entry.seq != previous + 1 {
                throw .corrupt("the log has seq \(logged.entry.seq) after \(previous)")
            }
            previous = logged.entry.seq
        }
    }

    private mutating func queue(_ entries: [LoggedEntry]) {
        guard settings.separatesKinds, let odd = entries.firstIndex(where: { !$0.isPlain }) else {
            pending.append(.entries(entries))
            return
        }
        if odd > 0 { pending.append(.entries(Array(entries[..<odd]))) }
        var run: [LoggedEntry] = []
        for logged in entries[odd...] {
            guard !logged.isPlain else {
                run.append(logged)
                continue
            }
            if !run.isEmpty { pending.append(.entries(run)) }
            run = []
            pending.append(logged.entry.isBulk ? .bulk(logged) : .rules(logged))
        }
        if !run.isEmpty { pending.append(.entries(run)) }
    }

    private mutating func queueReportingGaps(_ entries: [LoggedEntry]) {
        var wanted = position.seq + 1
        var run: [LoggedEntry] = []
        for (index, logged) in entries.enumerated() {
            if logged.entry.seq != wanted {
                if !run.isEmpty { queue(run) }
                run = []
                pending.append(.missing(wanted..<logged.entry.seq, read: Array(entries[index...])))
            }
            run.append(logged)
            wanted = logged.entry.seq + 1
        }
        queue(run)
    }

    private mutating func handOut() -> LogEvent {
        let event = pending.removeFirst()
        switch event {
        case .entries(let entries):
            if let last = entries.last { position = last.position }
        case .bulk(let logged), .rules(let logged): position = logged.position
        case .end: isAtEnd = true
        case .missing, .rolledBack: break
        }
        return event
    }
}

extension LoggedEntry {
    /// The log position after this entry.
    public var position: LogPosition { LogPosition(seq: entry.seq, batch: batchID) }

    /// Whether `changes` is the whole content of the entry. False for entries with parts and entries with rules.
    public var isPlain: Bool { !entry.isBulk && entry.operation != .rules }
}
