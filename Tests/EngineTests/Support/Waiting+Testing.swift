import LogStore
import Rules
import TestSupport
import Tree

@testable import Engine

extension WriteQueue.Waiting {
    /// Returns a waiting write; its sink is unused unless one is given.
    static func test(
        _ token: UInt64 = 0, bytes: Int = 10, alone: Bool = false, sink: any WriteSink = CollectingSink(),
        deadline: Int64 = .max, upstream: UpstreamMark? = nil
    ) -> WriteQueue.Waiting {
        let claim = SessionClaim(session: "s", gateway: [1], save: nil)
        let action: Write.Action =
            alone ? .disconnect(claim, operations: []) : .set(Path(splitting: "a"), .int(Int64(token)))
        return WriteQueue.Waiting(
            write: Write(action, operation: .set, byteCount: bytes, auth: .admin, upstream: upstream), sink: sink,
            token: token,
            deadline: deadline)
    }
}

extension LiveNamespace {
    /// Returns a namespace without a database; `handed` records its handovers.
    static func test(
        _ root: Node = .null, seq: Int64 = 0, id: Int64 = 1, name: String = "test",
        _ settings: EngineSettings = .init(),
        health: DatabaseHealth? = nil, handed: HandedOver = HandedOver(), total: MemoryTotal = MemoryTotal()
    ) -> LiveNamespace {
        let snapshot = Snapshot(seq: seq, root: root, rules: RulesVersion(seq: 0, set: .denyAll), batch: [0])
        return LiveNamespace(
            id: id, name: name, streamKey: Array("key".utf8), snapshot, settings,
            memory: NamespaceMemory(in: total), health: health,
            host: NamespaceHost(
                schedule: { _ in handed.noteNamespace() }, prepare: { item, _ in handed.note(item) },
                recount: { _ in }, needRoom: {}))
    }
}
