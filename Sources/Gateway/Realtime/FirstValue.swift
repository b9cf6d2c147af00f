import Engine
import Tree
import Wire

/// What a realtime listen begins with; made on the loop, computed there or on a worker.
struct FirstValue: Sendable {
    private let group: ListenerGroup
    private let snapshot: Snapshot
    private let target: ListenTarget
    /// What the client says that it has; nil where that does not matter.
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

    /// Whether it takes too long for a loop: what is looked through, hashed or written is large.
    func isHeavy(_ settings: GatewaySettings) -> Bool {
        snapshot.root[target.path].rowCount > settings.heavyRows || compound?.hashes.count ?? 0 > settings.heavyRows
    }

    /// The message to the client: nothing if it has the value, the ranges that differ if its hashes of ranges show any, else
    /// the whole value.
    func message() -> [UInt8]? {
        let value = group.value(in: snapshot)
        if let hash, value.isNull ? hash.isEmpty : (!hash.isEmpty && hash == value.hash) { return nil }
        let ranges = compound.map { RangeMerge.differences(value, $0) }
        let push: [UInt8]
        // If the hash differs and no range does, the client has a priority that SDKs leave out of the hashes of ranges.
        if let ranges, !ranges.isEmpty {
            push = ServerMessage.rangeMerge(ranges, listener: target.path)
        } else {
            push = ServerMessage.push(.put(.root, value), listener: target.path, isTagged: target.query != nil)
        }
        return ServerMessage.finish(
            group.isMarked ? ServerMessage.marked(push, group.mark(snapshot)) : push, tag: target.tag)
    }
}
