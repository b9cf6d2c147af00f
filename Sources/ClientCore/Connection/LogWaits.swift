import Tree

/// Those who wait for entries of the server's log, in the order in which they came.
struct LogWaits: Sendable {
    struct Wait: Sendable {
        let id: RequestID
        let seq: Int64
        let path: Path?
        /// Over the connection that stands.
        var isSent = false
    }

    private(set) var all: [Wait] = []

    mutating func add(_ id: RequestID, _ seq: Int64, _ path: Path?) {
        all.append(Wait(id: id, seq: seq, path: path))
    }

    mutating func remove(_ id: RequestID) { all.removeAll { $0.id == id } }

    func has(_ id: RequestID) -> Bool { all.contains { $0.id == id } }

    /// The next one to send, which thereby counts as sent.
    mutating func next() -> Wait? {
        guard let index = all.firstIndex(where: { !$0.isSent }) else { return nil }
        all[index].isSent = true
        return all[index]
    }

    /// It is to be sent again.
    mutating func again(_ id: RequestID) {
        guard let index = all.firstIndex(where: { $0.id == id }) else { return }
        all[index].isSent = false
    }

    mutating func connectionEnded() {
        for index in all.indices { all[index].isSent = false }
    }

    mutating func removeAll() -> [RequestID] {
        defer { all = [] }
        return all.map(\.id)
    }
}
