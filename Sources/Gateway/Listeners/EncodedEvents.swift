import HTTPServer

/// Events for a group of listeners, encoded once. There is at least one.
struct EncodedEvents: Sendable {
    struct Event: Sendable {
        let seq: Int64
        let bytes: SharedBytes
    }

    let events: [Event]
    /// The seq of the newest.
    let lastSeq: Int64
    /// All of them together, for streams that have seen none: one send instead of several. For realtime listens, whose
    /// pushes are not whole yet, only their number of bytes is of use.
    let joined: SharedBytes

    /// Nil where there are none.
    init?(_ events: [Event]) {
        guard let first = events.first, let last = events.last else { return nil }
        self.events = events
        lastSeq = last.seq
        joined = events.count == 1 ? first.bytes : SharedBytes(Array(events.lazy.map(\.bytes.bytes).joined()))
    }
}
