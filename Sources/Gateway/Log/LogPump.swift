import Engine

/// When a reader of the log is given its next slice: not before it has taken the last, and not before there is one. A value
/// without I/O.
struct LogPump: Sendable, Equatable {
    /// What to do next.
    enum Ask: Sendable, Equatable {
        /// Read the slice after the place; then `received`.
        case read(LogPlace)
        /// Say `woke` once the log has that entry.
        case awaitEntry(Int64)
        /// Wait for what was asked for before, or for the client.
        case nothing
    }

    private enum State: Equatable {
        case reading
        /// The log has no more for now.
        case atEnd
        /// The client has not taken what it was given.
        case full
    }

    /// The end of what was read.
    private var place: LogPlace
    private var state = State.reading

    /// A reader that has been given nothing. Its first slice is being read.
    init(at place: LogPlace) { self.place = place }

    /// Whether the log has no more for now, as far as this reader knows.
    var isAtEnd: Bool { state == .atEnd }

    /// A slice is here.
    ///
    /// - Parameters:
    ///   - end: the place behind it.
    ///   - isAtEnd: whether the log ended there.
    ///   - isFull: whether more is waiting for the client, with the slice, than may wait when the next one is read.
    mutating func received(to end: LogPlace, isAtEnd: Bool, isFull: Bool) -> Ask {
        guard state == .reading else { return .nothing }
        place = end
        if isAtEnd {
            state = .atEnd
            return .awaitEntry(end.seq + 1)
        }
        return goOn(isFull: isFull)
    }

    /// The log may have the entry that was waited for, or it is time to look.
    mutating func woke(isFull: Bool) -> Ask {
        guard state == .atEnd else { return .nothing }
        return goOn(isFull: isFull)
    }

    /// The client has taken all that waited for it.
    mutating func drained() -> Ask {
        guard state == .full else { return .nothing }
        return goOn(isFull: false)
    }

    private mutating func goOn(isFull: Bool) -> Ask {
        guard !isFull else {
            state = .full
            return .nothing
        }
        state = .reading
        return .read(place)
    }
}
