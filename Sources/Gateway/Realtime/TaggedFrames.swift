import HTTPServer
import Wire

/// The frames of one group's events, made once for each tag that the group's listens have.
struct TaggedFrames {
    let encoded: EncodedEvents
    private var byTag: [Int64?: SharedBytes] = [:]
    /// The last of them: most listens of a group have one tag, or none.
    private var last: (tag: Int64?, frames: SharedBytes)?

    init(_ encoded: EncodedEvents) { self.encoded = encoded }

    /// The frames of the events after `seq`; nil if there are none, or they are longer than clients can take.
    mutating func frames(after seq: Int64, tag: Int64?, _ transport: any RealtimeTransport.Type) -> SharedBytes? {
        guard let first = encoded.events.first else { return nil }
        let isWhole = first.seq > seq && transport.isWebSocket
        if isWhole {
            if let last, last.tag == tag { return last.frames }
            if let frames = byTag[tag] {
                last = (tag, frames)
                return frames
            }
        }
        let messages = encoded.events.filter { $0.seq > seq }.map { ServerMessage.finish($0.bytes.bytes, tag: tag) }
        guard !messages.isEmpty, let frames = transport.frames(for: messages) else { return nil }
        if isWhole {
            byTag[tag] = frames
            last = (tag, frames)
        }
        return frames
    }
}
