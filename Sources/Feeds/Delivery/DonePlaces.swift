import LogStore

/// A position in the log order of a feed, open from when its message was taken until the message is done. Belongs to one thread.
class OpenPlace {
    let position: FeedPosition
    /// Whether the position is among those of a `DonePlaces` that are not done.
    fileprivate(set) var isOpen = false
    // Each open place is kept by the one before it, and the first one by `DonePlaces`.
    fileprivate unowned(unsafe) var previous: OpenPlace?
    fileprivate var next: OpenPlace?
    /// The positions that are done between this place and the next.
    fileprivate var doneAfter: ClosedRange<FeedPosition>?
    /// The index among the places with something done after them.
    fileprivate var gapIndex = 0

    init(_ position: FeedPosition) { self.position = position }
}

/// Progress that covers no open position. Only `DonePlaces` makes it.
struct CheckedProgress: Sendable {
    let progress: FeedProgress

    fileprivate init(_ progress: FeedProgress) { self.progress = progress }
}

/// Which positions of a feed's log order are done. A position becomes done in one way only: its open place is closed.
///
/// Positions have to be opened in the order of the log, each once; what violates this throws and changes nothing. Each call costs O(1), and
/// `progress` O(n log n) for n ranges of done positions. A value without I/O that belongs to one thread.
struct DonePlaces {
    /// The positions that were done when the feed began here.
    let begun: FeedProgress
    private(set) var readTo: LogCursor
    /// How many places are open.
    private(set) var count = 0
    /// The last position that was opened or passed.
    private(set) var lastTaken: FeedPosition?
    private var hasReadSnapshot = false
    private var firstOpen: OpenPlace?
    private unowned(unsafe) var lastOpen: OpenPlace?
    /// The last position that was done while none before it was open.
    private var lastDone: FeedPosition?
    /// The open places with something done after them: few, where thousands are open.
    private var gaps: ContiguousArray<OpenPlace> = []
    private var lastRecorded: FeedPosition?

    init(from progress: FeedProgress) {
        begun = progress
        readTo = LogCursor(seq: progress.seq)
    }

    /// The first position that is open.
    var first: FeedPosition? { firstOpen?.position }

    // MARK: From the log

    /// Opens the place of a message that the reader has brought. False where the message was done before: the place stays closed.
    mutating func open(_ place: OpenPlace) throws(FeedInvariantError) -> Bool {
        guard !place.isOpen else { throw FeedInvariantError(.alreadyOpen(place.position)) }
        try advance(to: place.position)
        guard !begun.isDone(place.position) else {
            noteDone(place.position)
            return false
        }
        place.isOpen = true
        place.previous = lastOpen
        if let last = lastOpen { last.next = place } else { firstOpen = place }
        lastOpen = place
        count += 1
        return true
    }

    /// Passes the position of a message that the database keeps, and that is delivered from there.
    mutating func pass(_ stored: FeedMachine.Slot) throws(FeedInvariantError) {
        guard stored.isRetry, !stored.isOpen else { throw FeedInvariantError(.alreadyOpen(stored.position)) }
        try advance(to: stored.position)
        noteDone(stored.position)
    }

    /// Notes that the messages of all entries up to there were opened or passed. False where that is known.
    mutating func read(to cursor: LogCursor) -> Bool {
        guard cursor.seq >= readTo.seq else { return false }
        readTo = cursor
        return true
    }

    /// Notes that the messages of the snapshot were opened or passed.
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

    /// The position, which comes last of all, is done.
    private mutating func noteDone(_ position: FeedPosition) {
        guard let last = lastOpen else {
            lastDone = position
            return
        }
        // Nothing that is open comes after the last open place, and positions grow.
        setGap((last.doneAfter?.lowerBound ?? position)...position, after: last)
    }

    // MARK: Done

    /// Closes the place of a message that is done: it joins what is done around it.
    mutating func close(_ place: OpenPlace) throws(FeedInvariantError) {
        guard place.isOpen else { throw FeedInvariantError(.notOpen(place.position)) }
        let end = place.doneAfter?.upperBound ?? place.position
        let start = place.previous?.doneAfter?.lowerBound ?? place.position
        try check(start, end, between: place.previous, and: place.next)
        setGap(nil, after: place)
        if let previous = place.previous {
            setGap(start...end, after: previous)
            previous.next = place.next
        } else {
            firstOpen = place.next
            lastDone = end
        }
        if let next = place.next { next.previous = place.previous } else { lastOpen = place.previous }
        place.isOpen = false
        place.previous = nil
        place.next = nil
        count -= 1
    }

    /// Closes all places, none of which is done.
    mutating func removeAll() {
        gaps.removeAll()
        lastOpen = nil
        // One after the other: each keeps the next, and thousands of nested releases would exhaust a thread's stack.
        while let place = firstOpen {
            firstOpen = place.next
            place.isOpen = false
            place.previous = nil
            place.next = nil
            place.doneAfter = nil
        }
        count = 0
    }

    private func check(
        _ start: FeedPosition, _ end: FeedPosition, between previous: OpenPlace?, and next: OpenPlace?
    ) throws(FeedInvariantError) {
        guard start <= end else { throw FeedInvariantError(.unencodable) }
        if let previous, start <= previous.position { throw FeedInvariantError(.coversOpen(previous.position)) }
        if let next, next.position <= end { throw FeedInvariantError(.coversOpen(next.position)) }
    }

    /// Notes what is done after an open place; nil for nothing.
    private mutating func setGap(_ range: ClosedRange<FeedPosition>?, after place: OpenPlace) {
        switch (place.doneAfter, range) {
        case (nil, nil): return
        case (nil, _?):
            place.gapIndex = gaps.count
            gaps.append(place)
        case (_?, nil):
            guard let last = gaps.popLast(), last !== place else { break }
            last.gapIndex = place.gapIndex
            gaps[place.gapIndex] = last
        case (_?, _?): break
        }
        place.doneAfter = range
    }

    // MARK: What is recorded

    /// The progress that may be recorded now.
    ///
    /// - Parameters:
    ///   - handedTo: the last entry of which a message may be handed out.
    ///   - held: how many messages of the log order the machine has that are not done.
    mutating func progress(handedTo: Int64, held: Int) throws(FeedInvariantError) -> CheckedProgress {
        guard held == count else { throw FeedInvariantError(.miscounted(open: count, held: held)) }
        let place = place
        if let lastRecorded, place < lastRecorded {
            throw FeedInvariantError(.stepsBack(place, from: lastRecorded))
        }
        guard let done = PlaceRanges(try doneRanges(from: place)) else { throw FeedInvariantError(.unencodable) }
        lastRecorded = place
        return CheckedProgress(
            FeedProgress(
                seq: place.seq - 1, index: place.index, snapshotSeq: place.isSnapshot ? place.seq : nil, done: done,
                handedTo: handedTo, readTo: readTo))
    }

    /// The first entry of which a message may not be done.
    var seq: Int64 { place.seq - 1 }

    /// The first position that may not be done.
    private var place: FeedPosition {
        if let firstOpen { return firstOpen.position }
        // What was done before holds until more than that was read.
        var place = begun.first
        if let lastDone { place = max(place, lastDone.next) }
        if begun.snapshotSeq == nil || hasReadSnapshot {
            place = max(place, FeedPosition(seq: readTo.seq + 1, index: 0))
        }
        return place
    }

    private func doneRanges(from place: FeedPosition) throws(FeedInvariantError) -> [ClosedRange<FeedPosition>] {
        var ranges: [ClosedRange<FeedPosition>] = []
        ranges.reserveCapacity(gaps.count)
        for open in gaps {
            guard let range = open.doneAfter else { continue }
            try check(range.lowerBound, range.upperBound, between: open, and: open.next)
            ranges.append(range)
        }
        ranges.sort { $0.lowerBound < $1.lowerBound }
        // And what was done before, and was not read again yet.
        let unread = max(place, lastTaken?.next ?? place)
        for range in begun.done.ranges where range.upperBound >= unread && range.upperBound.seq > readTo.seq {
            ranges.append(max(range.lowerBound, unread)...range.upperBound)
        }
        return ranges
    }
}

/// A state of a feed in which recording its progress could lose a message. It ends the feed's run, and nothing else.
struct FeedInvariantError: Error, Sendable, Equatable, CustomStringConvertible {
    enum Cause: Sendable, Equatable {
        /// The reader brought a message that does not come after the last one, or after what was read.
        case outOfOrder(FeedPosition, after: FeedPosition)
        /// The reader brought a message that is not done yet.
        case alreadyOpen(FeedPosition)
        /// A message that is not open was to become done.
        case notOpen(FeedPosition)
        /// The range to be recorded as done contains a message that is not done.
        case coversOpen(FeedPosition)
        /// The machine has another number of messages than are open.
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
