internal import Runtime

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
