/// The realtime sessions of one loop, by their ids. Belongs to the loop's thread.
final class SessionTable {
    private var sessions: [String: RealtimeSession] = [:]

    subscript(id: String) -> RealtimeSession? { sessions[id] }

    var ids: [String] { Array(sessions.keys) }
    var all: [RealtimeSession] { Array(sessions.values) }

    func add(_ session: RealtimeSession) { sessions[session.id] = session }

    /// Takes a session out; nil where there is none.
    func remove(_ id: String) -> RealtimeSession? { sessions.removeValue(forKey: id) }
}
