import Tree

/// What a reader of a namespace's log asks next, and what it makes of the answers: pages, gaps, other histories, entries of
/// each kind, the log's end and the wait there. A value without I/O and without a clock: `LogFollower` does what it
/// asks for.
///
/// The cursor moves when an event is handed out. A page that could not be read is asked for again, so that nothing is left
/// out and nothing comes twice, however often a connection is lost.
public struct FollowerMachine: Sendable {
    /// What is made of entries that are missing.
    public enum Gaps: Sendable, Equatable {
        /// They end the reading, which goes on after `restart(at:)`. A gap inside a page is an error: pruning leaves none.
        case refused
        /// They are reported, and the reading goes on behind them.
        case reported
    }

    /// How a log is read; every field has its default.
    public struct Settings: Sendable, Equatable {
        /// The most entries of one page.
        public var pageEntries = 1_000
        /// About how many bytes of changes one page holds; it always holds one entry.
        public var pageBytes = 16 << 20
        /// Whether each page is read together with what the log says of the cursor's place, and compared with it.
        public var checksHistory = false
        /// What is made of entries that are missing.
        public var gaps = Gaps.refused
        /// Whether entries in parts and entries with rules come as events of their own, each in its place among the others.
        public var separatesKinds = false
        /// How often the log is read at its end although nothing was announced. Nil for a reader that does not wait there.
        public var pollMilliseconds: Int64?

        public init() {}
    }

    /// A page of the log.
    public struct PageRequest: Sendable, Equatable {
        /// The page begins behind this entry and ends with the bound at the latest.
        public let after: Int64
        public let through: Int64
        public let entries: Int
        public let bytes: Int
        /// Whether to ask as well what the log says of the place `after`.
        public let withHistory: Bool
    }

    /// What to do next.
    public enum Ask: Sendable {
        /// Read the page; then `received`. Where that fails, it is asked for again.
        case read(PageRequest)
        /// Hand the event to the reader.
        case take(LogEvent)
        /// Wait until something is announced, at most so long.
        case wait(milliseconds: Int64)
    }

    public let settings: Settings
    /// The last entry that was handed out.
    public private(set) var cursor: LogCursor
    /// Entries behind this one are not asked for. May change between two pages.
    public var bound: Int64
    /// The highest head that was announced since a page was asked for last.
    private var toldHead: Int64 = 0
    /// What was read and not handed out yet, in order.
    private var pending: [LogEvent] = []
    private var isAtEnd = false
    /// When the log is read again at its end.
    private var nextPoll: Int64?

    /// - Parameters:
    ///   - cursor: what was read already.
    ///   - bound: the last entry that is wanted.
    public init(at cursor: LogCursor, through bound: Int64 = .max, settings: Settings = Settings()) {
        self.cursor = cursor
        self.bound = bound
        self.settings = settings
    }

    /// What to do next.
    ///
    /// - Parameter now: a monotonic clock, in milliseconds. Only a reader that waits looks at it.
    public mutating func next(at now: Int64 = 0) -> Ask {
        if !pending.isEmpty { return .take(handOut()) }
        guard cursor.seq < bound else { return .take(.end(head: nil)) }
        if isAtEnd {
            if let poll = settings.pollMilliseconds, toldHead <= cursor.seq {
                let due = nextPoll ?? (now + poll)
                nextPoll = due
                if now < due { return .wait(milliseconds: due - now) }
            }
            isAtEnd = false
            nextPoll = nil
        }
        // What was announced until now is in the answer, if there is anything in it.
        toldHead = 0
        return .read(
            PageRequest(
                after: cursor.seq, through: bound, entries: settings.pageEntries, bytes: settings.pageBytes,
                withHistory: settings.checksHistory))
    }

    /// The log was announced to reach so far. Late and repeated announcements do no harm.
    public mutating func told(head: Int64) { toldHead = max(toldHead, head) }

    /// Goes on from another place: the reader has loaded the state as of that entry.
    public mutating func restart(at cursor: LogCursor) {
        self.cursor = cursor
        pending = []
        isAtEnd = false
        nextPoll = nil
        // What was announced may have been of a history that is no more; a later head is announced again.
        toldHead = 0
    }

    /// The page that was asked for.
    ///
    /// - Parameters:
    ///   - history: what the log says of the cursor's place, where that was asked; nil where the namespace is gone.
    ///   - entries: in the order of their seqs; the first is the one behind the cursor, or a later one.
    /// - Throws: `corrupt` where seqs inside the page do not follow one another.
    public mutating func received(history: HistoryRecord?, entries: [LoggedEntry]) throws(LogStoreError) {
        if settings.checksHistory {
            guard let history, history.relation(of: cursor.seq, batch: cursor.batch) != .takenBack else {
                pending = [.takenBack(history)]
                return
            }
        }
        guard let first = entries.first?.entry.seq else { return ended(history) }
        let isUnknown =
            settings.checksHistory && history?.relation(of: cursor.seq, batch: cursor.batch) == .unknown
        switch settings.gaps {
        case .refused:
            try Self.checkOrder(entries)
            guard first == cursor.seq + 1, !isUnknown else {
                pending = [.missing((cursor.seq + 1)..<first, read: entries)]
                return
            }
            queue(entries)
        case .reported: queueReportingGaps(entries)
        }
    }

    // MARK: Events

    private mutating func ended(_ history: HistoryRecord?) {
        if let head = history?.head, head > cursor.seq {
            // The head is beyond, and there is nothing on the way to it.
            pending = [.missing((cursor.seq + 1)..<(head + 1), read: [])]
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
        var wanted = cursor.seq + 1
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
            if let last = entries.last { cursor = last.cursor }
        case .bulk(let logged), .rules(let logged): cursor = logged.cursor
        case .end: isAtEnd = true
        case .missing, .takenBack: break
        }
        return event
    }
}

extension LoggedEntry {
    /// The place behind this entry.
    public var cursor: LogCursor { LogCursor(seq: entry.seq, batch: batchID) }

    /// Whether its changes are all that it says. Not where they are in parts, or where it brought rules.
    public var isPlain: Bool { !entry.isBulk && entry.operation != .rules }
}
