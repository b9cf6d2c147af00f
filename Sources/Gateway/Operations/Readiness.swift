import Engine
import Tree

/// Whether the gateway should be sent requests, and why not. True only with a reachable database and a tail that keeps up.
struct Readiness {
    let isReady: Bool
    let body: [UInt8]

    init(_ gateway: Gateway) {
        let health = gateway.engine.health
        let isUp = health.isUp
        let lag = gateway.engine.liveNamespaces.map(\.lag).max() ?? 0
        isReady = isUp && lag <= gateway.settings.maxReadyLag
        var writer = JSONWriter(form: .plain)
        writer.beginObject()
        writer.writeKey("status", isFirst: true)
        writer.writeString(isReady ? "ready" : "not ready")
        writer.writeKey("database", isFirst: false)
        writer.writeString(isUp ? "reachable" : "unreachable")
        // Reads and streams go on from memory, as of the last entry that was seen.
        writer.writeKey("stale", isFirst: false)
        writer.write(.bool(!isUp))
        writer.writeKey("lagEntries", isFirst: false)
        writer.writeInteger(lag)
        if !isUp {
            writer.writeKey("unreachableMilliseconds", isFirst: false)
            writer.writeInteger(health.millisecondsSinceChange)
        }
        writer.endObject()
        body = writer.bytes + [0x0A]
    }
}
