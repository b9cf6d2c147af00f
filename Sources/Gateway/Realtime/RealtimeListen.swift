import Engine
import HTTPServer
import Rules
import Runtime
import Tree
import Wire

/// One listen of a realtime client. Belongs to its loop's thread.
final class RealtimeListen {
    enum State {
        /// The value is being encoded; events wait for it.
        case opening
        case live
        /// The client is slow: changes are skipped, and the value is sent again when it has caught up.
        case conflated
    }

    let id: UInt64
    let target: ListenTarget
    let group: ListenerGroup
    unowned let session: RealtimeSession
    /// A copy of the session's transport, which the session updates. The copy makes sending an event to thousands of
    /// listens faster.
    var transport: any SessionTransport
    /// The entry up to which the client has received changes.
    private(set) var seq: Int64
    var state = State.live {
        didSet {
            if (oldValue == .live) != (state == .live) { session.unsettledListens += state == .live ? -1 : 1 }
        }
    }
    /// A copy of the session's login number, which the session updates, for the same reason as `transport`.
    var loginNumber: Int
    /// The conditions of the client's last successful check. A new login is checked at once.
    var admission = Admission()
    /// Events that wait for the value, and whether there were too many to keep.
    private var waiting: [EncodedEvents] = []
    private var waitingBytes = 0
    private var hasMissed = false

    init(_ id: UInt64, _ target: ListenTarget, _ group: ListenerGroup, _ session: RealtimeSession, seq: Int64) {
        self.id = id
        self.target = target
        self.group = group
        self.session = session
        transport = session.transport
        loginNumber = session.loginNumber
        self.seq = seq
    }

    // MARK: While the value is encoded

    func open() {
        state = .opening
        waiting.removeAll()
        waitingBytes = 0
        hasMissed = false
    }

    private func wait(_ encoded: EncodedEvents, _ bufferBytes: Int) {
        waitingBytes += encoded.joined.count
        if waitingBytes > bufferBytes {
            waiting.removeAll()
            hasMissed = true
        }
        if !hasMissed { waiting.append(encoded) }
    }

    /// Handles that the value at `seq` was sent: sends the events that have waited for it. If there were too many, the
    /// listen is conflated.
    func opened(at seq: Int64, bufferBytes: Int) {
        self.seq = max(self.seq, seq)
        let waiting = waiting
        self.waiting.removeAll()
        state = hasMissed ? .conflated : .live
        hasMissed = false
        for encoded in waiting {
            var frames = TaggedFrames(encoded)
            deliver(&frames, bufferBytes: bufferBytes)
        }
    }

    /// Records a change that events do not contain: the value has to be sent again.
    func missed() {
        waiting.removeAll()
        hasMissed = true
    }
}

extension RealtimeListen: Listener {
    static func delivery(of events: EncodedEvents) -> TaggedFrames { TaggedFrames(events) }

    var reader: AuthContext { session.login.context }

    func deliver(_ delivery: inout TaggedFrames, bufferBytes: Int) {
        if state == .opening { return wait(delivery.encoded, bufferBytes) }
        let last = delivery.encoded.lastSeq
        guard state == .live, last > seq else { return }
        if transport.queuedBytes > bufferBytes {
            session.context.metrics.conflations.add()
            state = .conflated
            return
        }
        guard let bytes = delivery.frames(after: seq, tag: target.tag, type(of: transport)) else { return shutOut() }
        transport.send(frames: bytes)
        seq = last
    }

    /// A conflated listen restarts anyway when its client has caught up.
    func restart(from snapshot: Snapshot) {
        if state != .conflated { session.resend(self, snapshot) }
    }

    func shutOut() { session.cancel(self) }

    /// The next sweep closes realtime sessions of such a namespace.
    func namespaceEnded() {}
}

/// The first value of a realtime listen. Created on the loop, computed there or on a worker.
struct InitialValue: Sendable {
    private let group: ListenerGroup
    private let snapshot: Snapshot
    private let target: ListenTarget
    /// The hash of the client's value; nil if it is irrelevant.
    private let hash: String?
    private let compound: CompoundHash?

    init(
        _ group: ListenerGroup, _ snapshot: Snapshot, _ target: ListenTarget, _ hash: String? = nil,
        _ compound: CompoundHash? = nil
    ) {
        self.group = group
        self.snapshot = snapshot
        self.target = target
        self.hash = hash
        self.compound = compound
    }

    /// Returns whether the value or the client's hashes are too large for a loop.
    func isHeavy(_ settings: GatewaySettings) -> Bool {
        snapshot.root[target.path].rowCount > settings.heavyRows || compound?.hashes.count ?? 0 > settings.heavyRows
    }

    /// Returns the message to the client: nil if it has the value, the differing ranges if its compound hash reveals
    /// any, else the whole value.
    func message() -> [UInt8]? {
        let value = group.value(in: snapshot)
        if let hash, value.isNull ? hash.isEmpty : (!hash.isEmpty && hash == value.hash) { return nil }
        let ranges = compound.map { RangeMerge.differences(value, $0) }
        let push: [UInt8]
        // If the hash differs and no range does, the client has a priority that SDKs omit from the hashes of ranges.
        if let ranges, !ranges.isEmpty {
            push = ServerMessage.rangeMerge(ranges, listener: target.path)
        } else {
            push = ServerMessage.push(.put(.root, value), listener: target.path, isTagged: target.query != nil)
        }
        return ServerMessage.finish(
            group.isMarked ? ServerMessage.marked(push, group.mark(snapshot)) : push, tag: target.tag)
    }
}

/// The frames of one group's events, created once for each tag of the group's listens.
struct TaggedFrames {
    let encoded: EncodedEvents
    private var byTag: [Int64?: SharedBytes] = [:]
    /// The last frames that were used: most listens of a group have the same tag, or none.
    private var last: (tag: Int64?, frames: SharedBytes)?

    init(_ encoded: EncodedEvents) { self.encoded = encoded }

    /// Returns the frames of the events after `seq`; nil if there are none, or a message exceeds the length that
    /// clients accept.
    mutating func frames(after seq: Int64, tag: Int64?, _ transport: any SessionTransport.Type) -> SharedBytes? {
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
