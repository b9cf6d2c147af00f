import LogStore

/// A position in the log order of a feed. It is open from the arrival of its message until the message is
/// done. Belongs to one thread.
class OpenPosition {
    let position: FeedPosition
    /// Whether the position is one of the open positions of a `DonePositions`.
    fileprivate(set) var isOpen = false
    // Each open position is retained by the one before it in the list, and the first one by `DonePositions`.
    fileprivate unowned(unsafe) var previous: OpenPosition?
    fileprivate var next: OpenPosition?
    /// The done positions between this position and the next open one.
    fileprivate var doneAfter: ClosedRange<FeedPosition>?
    /// The index of this position in `DonePositions.gaps`.
    fileprivate var gapIndex = 0

    init(_ position: FeedPosition) { self.position = position }
}

/// Progress that covers no open position. Only `DonePositions` creates it.
struct CheckedProgress: Sendable {
    let progress: FeedProgress

    fileprivate init(_ progress: FeedProgress) { self.progress = progress }
}

/// The done positions in a feed's log order. A position becomes done only by being opened and then closed.
///
/// Positions must be opened in log order, each once; a violation throws and changes nothing. Each call costs O(1), and `progress`
/// O(n log n) for n ranges of done positions. A value without I/O that belongs to one thread.
struct DonePositions {
    /// The positions that were done when this run of the feed began.
    let begun: FeedProgress
    private(set) var readTo: LogPosition
    /// The number of open positions.
    private(set) var count = 0
    /// The last position that was opened or passed.
    private(set) var lastTaken: FeedPosition?
    private var hasReadSnapshot = false
    private var firstOpen: OpenPosition?
    private unowned(unsafe) var lastOpen: OpenPosition?
    /// The last position that became done while no earlier position was open.
    private var lastDone: FeedPosition?
    /// The open positions that are followed by done ones. There are few of them even if thousands of positions are open.
    private var gaps: ContiguousArray<OpenPosition> = []
    private var lastRecorded: FeedPosition?

    init(from progress: FeedProgress) {
        begun = progress
        readTo = LogPosition(seq: progress.seq)
    }

    /// The first open position.
    var first: FeedPosition? { firstOpen?.position }

    // MARK: Reading

    /// Opens the position of a message that the reader has brought. Returns false and does not open it if the message was already done.
    mutating func open(_ item: OpenPosition) throws(FeedInvariantError) -> Bool {
        guard !item.isOpen else { throw FeedInvariantError(.alreadyOpen(item.position)) }
        try advance(to: item.position)
        guard !begun.isDone(item.position) else {
            noteDone(item.position)
            return false
        }
        item.isOpen = true
        item.previous = lastOpen
        if let last = lastOpen { last.next = item } else { firstOpen = item }
        lastOpen = item
        count += 1
        return true
    }

    /// Passes the position of a message that the database stores and that is delivered from there.
    mutating func pass(_ stored: FeedMachine.Slot) throws(FeedInvariantError) {
        guard stored.isRetry, !stored.isOpen else { throw FeedInvariantError(.alreadyOpen(stored.position)) }
        try advance(to: stored.position)
        noteDone(stored.position)
    }

    /// Notes that all messages of entries up to the cursor were opened or passed. Returns false if that was already known.
    mutating func read(to cursor: LogPosition) -> Bool {
        guard cursor.seq >= readTo.seq else { return false }
        readTo = cursor
        return true
    }

    /// Notes that all messages of the snapshot were opened or passed.
    mutating func readSnapshot() { hasReadSnapshot = true }

    private mutating func advance(to position: FeedPosition) throws(FeedInvariantError) {
        if let lastTaken, position <= lastTaken {
            throw FeedInvariantError(.outOfOrder(position, after: lastTaken))
        }
        guard position.seq > readTo.seq else {
            throw FeedInvariantError(.outOfOrder(position, after: FeedPosition(seq: readTo.seq + 1, index: 0)))
        }
        lastTaken = position
    }

    /// Notes that a position after all others is done.
    private mutating func noteDone(_ position: FeedPosition) {
        guard let last = lastOpen else {
            lastDone = position
            return
        }
        // No open position follows the last one, and positions only grow.
        setGap((last.doneAfter?.lowerBound ?? position)...position, after: last)
    }

    // MARK: Closing

    /// Closes the position of a message that is done, and merges it with the done positions around it.
    mutating func close(_ item: OpenPosition) throws(FeedInvariantError) {
        guard item.isOpen else { throw FeedInvariantError(.notOpen(item.position)) }
        let end = item.doneAfter?.upperBound ?? item.position
        let start = item.previous?.doneAfter?.lowerBound ?? item.position
        try check(start, end, between: item.previous, and: item.next)
        setGap(nil, after: item)
        if let previous = item.previous {
            setGap(start...end, after: previous)
            previous.next = item.next
        } else {
            firstOpen = item.next
            lastDone = end
        }
        if let next = item.next { next.previous = item.previous } else { lastOpen = item.previous }
        item.isOpen = false
        item.previous = nil
        item.next = nil
        count -= 1
    }

    /// Closes all positions without marking them as done.
    mutating func removeAll() {
        gaps.removeAll()
        lastOpen = nil
        // Each position retains the next. Closing one at a time avoids thousands of nested releases, which would
        // exhaust a thread's stack.
        while let item = firstOpen {
            firstOpen = item.next
            item.isOpen = false
            item.previous = nil
            item.next = nil
            item.doneAfter = nil
        }
        count = 0
    }

    private func check(
        _ start: FeedPosition, _ end: FeedPosition, between previous: OpenPosition?, and next: OpenPosition?
    ) throws(FeedInvariantError) {
        guard start <= end else { throw FeedInvariantError(.unencodable) }
        if let previous, start <= previous.position { throw FeedInvariantError(.coversOpen(previous.position)) }
        if let next, next.position <= end { throw FeedInvariantError(.coversOpen(next.position)) }
    }

    /// Sets the done positions after an open position, or nil for none.
    private mutating func setGap(_ range: ClosedRange<FeedPosition>?, after item: OpenPosition) {
        switch (item.doneAfter, range) {
        case (nil, nil): return
        case (nil, _?):
            item.gapIndex = gaps.count
            gaps.append(item)
        case (_?, nil):
            guard let last = gaps.popLast(), last !== item else { break }
            last.gapIndex = item.gapIndex
            gaps[item.gapIndex] = last
        case (_?, _?): break
        }
        item.doneAfter = range
    }

    // MARK: Progress

    /// Returns the progress that may be recorded now.
    ///
    /// - Parameters:
    ///   - handedTo: The last entry whose messages may be delivered.
    ///   - held: The number of undone messages in log order that the machine has.
    mutating func progress(handedTo: Int64, held: Int) throws(FeedInvariantError) -> CheckedProgress {
        guard held == count else { throw FeedInvariantError(.miscounted(open: count, held: held)) }
        let position = position
        if let lastRecorded, position < lastRecorded {
            throw FeedInvariantError(.stepsBack(position, from: lastRecorded))
        }
        guard let done = PositionRanges(try doneRanges(from: position)) else { throw FeedInvariantError(.unencodable) }
        lastRecorded = position
        return CheckedProgress(
            FeedProgress(
                seq: position.seq - 1, index: position.index, snapshotSeq: position.isSnapshot ? position.seq : nil,
                done: done,
                handedTo: handedTo, readTo: readTo))
    }

    /// The last entry up to which all messages are done.
    var seq: Int64 { position.seq - 1 }

    /// The first position that may not be done.
    private var position: FeedPosition {
        if let firstOpen { return firstOpen.position }
        // The progress of the previous run holds until the reader has passed it.
        var position = begun.first
        if let lastDone { position = max(position, lastDone.next) }
        if begun.snapshotSeq == nil || hasReadSnapshot {
            position = max(position, FeedPosition(seq: readTo.seq + 1, index: 0))
        }
        return position
    }

    private func doneRanges(from position: FeedPosition) throws(FeedInvariantError) -> [ClosedRange<FeedPosition>] {
        var ranges: [ClosedRange<FeedPosition>] = []
        ranges.reserveCapacity(gaps.count)
        for open in gaps {
            guard let range = open.doneAfter else { continue }
            try check(range.lowerBound, range.upperBound, between: open, and: open.next)
            ranges.append(range)
        }
        ranges.sort { $0.lowerBound < $1.lowerBound }
        // Adds the positions that were done before this run and have not been read again yet.
        let unread = max(position, lastTaken?.next ?? position)
        for range in begun.done.ranges where range.upperBound >= unread && range.upperBound.seq > readTo.seq {
            ranges.append(max(range.lowerBound, unread)...range.upperBound)
        }
        return ranges
    }
}

/// A state of a feed in which recording its progress could lose a message. It ends the run of this feed only.
struct FeedInvariantError: Error, Sendable, Equatable, CustomStringConvertible {
    enum Cause: Sendable, Equatable {
        /// The reader brought a message that does not come after the previous message, or not after the entries already read.
        case outOfOrder(FeedPosition, after: FeedPosition)
        /// The reader brought a message that is still open.
        case alreadyOpen(FeedPosition)
        /// A message became done whose position is not open.
        case notOpen(FeedPosition)
        /// The range to be recorded as done contains a message that is not done.
        case coversOpen(FeedPosition)
        /// The number of the machine's messages differs from the number of open positions.
        case miscounted(open: Int, held: Int)
        /// The progress to be recorded is before the progress recorded last.
        case stepsBack(FeedPosition, from: FeedPosition)
        /// The progress to be recorded cannot be encoded.
        case unencodable
    }

    let cause: Cause

    init(_ cause: Cause) { self.cause = cause }

    /// The fault, the gateway's reaction, and the operator's remedy.
    var description: String {
        "\(reason). The feed stopped without recording this, and starts again from its last recorded position: messages that"
            + " were not acknowledged are delivered again. If this repeats, seek the feed to a later position, and"
            + " report the fault with this line."
    }

    private var reason: String {
        switch cause {
        case .outOfOrder(let position, let last):
            "message \(Self.text(position)) was read after \(Self.text(last)), against the order of the log"
        case .alreadyOpen(let position): "message \(Self.text(position)) was read twice"
        case .notOpen(let position): "message \(Self.text(position)) became done twice"
        case .coversOpen(let position):
            "the progress would have recorded message \(Self.text(position)) as done, which it is not"
        case .miscounted(let open, let held): "\(open) messages are open in the log's order, and \(held) are kept"
        case .stepsBack(let position, let last):
            "the progress would have stepped back from \(Self.text(last)) to \(Self.text(position))"
        case .unencodable: "the progress cannot be encoded"
        }
    }

    private static func text(_ position: FeedPosition) -> String {
        "\(position.seq):\(position.isSnapshot ? "s" : "")\(position.index)"
    }
}
