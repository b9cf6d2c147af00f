import Engine
import Placement
import Tree

/// Whether the gateway should be sent requests, and why not. True only with a reachable database and a
/// tail that keeps up. Of several databases one will do: all gateways lose one that is away, and those that were sent nothing would
/// serve the others no more.
struct Readiness {
    let isReady: Bool
    let body: [UInt8]

    /// - Parameter hasDetails: whether more is told than whether it is ready: that is the operators'.
    init(_ facts: GatewayFacts, hasDetails: Bool) {
        let databases = facts.databases.all
        let reachable = databases.filter { $0.engine.health.isUp }
        let isUp = !reachable.isEmpty
        let health = facts.databases.home.engine.health
        let namespaces = (isUp ? reachable : databases).flatMap(\.engine.liveNamespaces)
        let lag = namespaces.map(\.lag).max() ?? 0
        // What the database has lost, and this gateway still has, is no better than what it can't see.
        let isStale = !isUp || namespaces.contains(where: \.isSuspect)
        isReady = !isStale && lag <= facts.maxReadyLag
        var writer = JSONWriter(form: .plain)
        writer.beginObject()
        writer.writeKey("status", isFirst: true)
        writer.writeString(isReady ? "ready" : "not ready")
        guard hasDetails else {
            writer.endObject()
            body = writer.bytes + [0x0A]
            return
        }
        writer.writeKey("database", isFirst: false)
        writer.writeString(isUp ? "reachable" : "unreachable")
        // Reads and streams go on from memory, as of the last entry that was seen.
        writer.writeKey("stale", isFirst: false)
        writer.write(.bool(isStale))
        writer.writeKey("lagEntries", isFirst: false)
        writer.writeInteger(lag)
        if !isUp {
            writer.writeKey("unreachableMilliseconds", isFirst: false)
            writer.writeInteger(health.millisecondsSinceChange)
        }
        let all = facts.databases.reachable
        if all.count > 1 { Self.write(all, to: &writer) }
        // A broken mirror is told of, but keeps no gateway from serving.
        let mirrors = facts.serverReport().mirrors
        if !mirrors.isEmpty { Self.write(mirrors, to: &writer) }
        writer.endObject()
        body = writer.bytes + [0x0A]
    }

    private static func write(_ databases: [(name: String, isUp: Bool)], to writer: inout JSONWriter) {
        writer.writeKey("databases", isFirst: false)
        writer.beginObject()
        for (index, database) in databases.enumerated() {
            writer.writeKey(database.name, isFirst: index == 0)
            writer.writeString(database.isUp ? "reachable" : "unreachable")
        }
        writer.endObject()
    }

    private static func write(_ mirrors: [MirrorFacts], to writer: inout JSONWriter) {
        writer.writeKey("mirrors", isFirst: false)
        writer.beginObject()
        for (index, mirror) in mirrors.enumerated() {
            writer.writeKey("\(mirror.namespace)/\(mirror.name)", isFirst: index == 0)
            writer.beginObject()
            writer.writeKey("state", isFirst: true)
            writer.writeString(mirror.state)
            writer.writeKey("lagEntries", isFirst: false)
            writer.writeInteger(mirror.lagEntries)
            if mirror.message != nil {
                // Why is for administrators: 'pathmirror mirror status' tells.
                writer.writeKey("broken", isFirst: false)
                writer.write(.bool(true))
            }
            writer.endObject()
        }
        writer.endObject()
    }
}
