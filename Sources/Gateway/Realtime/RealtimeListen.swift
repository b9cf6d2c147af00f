import Engine
import HTTPServer
import Wire

/// One listen of a realtime client. Belongs to its loop's thread.
final class RealtimeListen {
    enum State {
        case live
        /// The client is behind: changes are skipped, and it is sent the value anew when it has caught up.
        case conflated
    }

    let id: UInt64
    let target: ListenTarget
    let group: ListenerGroup
    unowned let session: RealtimeSession
    /// The entry that the client was brought to.
    var seq: Int64
    var state = State.live

    init(_ id: UInt64, _ target: ListenTarget, _ group: ListenerGroup, _ session: RealtimeSession, seq: Int64) {
        self.id = id
        self.target = target
        self.group = group
        self.session = session
        self.seq = seq
    }
}

/// The frames of one group's events, made once for each tag that the group's listens have.
struct TaggedFrames {
    private let encoded: EncodedEvents
    private var byTag: [Int64?: SharedBytes] = [:]

    init(_ encoded: EncodedEvents) { self.encoded = encoded }

    /// The frames of the events after `seq`; nil if there are none, or they are longer than clients can take.
    mutating func frames(after seq: Int64, tag: Int64?, _ transport: any RealtimeTransport.Type) -> SharedBytes? {
        guard let first = encoded.events.first else { return nil }
        let isWhole = first.seq > seq && transport.isWebSocket
        if isWhole, let frames = byTag[tag] { return frames }
        let messages = encoded.events.filter { $0.seq > seq }.map { ServerMessage.finish($0.bytes.bytes, tag: tag) }
        guard !messages.isEmpty, let frames = transport.frames(for: messages) else { return nil }
        if isWhole { byTag[tag] = frames }
        return frames
    }
}
