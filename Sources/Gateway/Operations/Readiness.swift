import Engine
import Placement
import Tree

/// Whether the gateway should receive requests, and why not. It is ready with a reachable database and a tail that
/// keeps up. With several databases, one reachable database suffices: all gateways lose an unavailable database, and
/// gateways that are not ready would not serve the others either.
struct Readiness {
    let isReady: Bool
    let body: [UInt8]

    /// - Parameter hasDetails: whether the body includes details, which only operators may see.
    init(_ facts: GatewayMetricFacts, hasDetails: Bool) {
        let databases = facts.databases.all
        let reachable = databases.filter { $0.engine.health.isUp }
        let isUp = !reachable.isEmpty
        let health = facts.databases.primary.engine.health
        let namespaces = (isUp ? reachable : databases).flatMap(\.engine.liveNamespaces)
        let lag = namespaces.map(\.lag).max() ?? 0
        // Entries that the database has lost and this gateway still has make it as stale as an unreachable database.
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
        // Reads and streams continue from memory, at the last entry that this gateway received.
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
        // A broken mirror is reported, but does not make the gateway unready.
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
                // The reason is for administrators: `pathmirror mirror status` prints it.
                writer.writeKey("broken", isFirst: false)
                writer.write(.bool(true))
            }
            writer.endObject()
        }
        writer.endObject()
    }
}
