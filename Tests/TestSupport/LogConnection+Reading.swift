public import LogStore

extension LogConnection {
    /// Reads one page of the log as a follower does. Entries after a gap are returned as if there were no gap.
    public func read(
        _ namespace: Int64, after seq: Int64, through last: Int64 = .max, limit: Int = 1_000, maxBytes: Int = 16 << 20
    ) throws(LogStoreError) -> [LoggedEntry] {
        var log = LogFollower(namespace, at: LogPosition(seq: seq), through: last) {
            $0.pageEntries = limit
            $0.pageBytes = maxBytes
        }
        switch try log.next(on: self) {
        case .entries(let entries), .missing(_, let entries): return entries
        case .bulk(let logged), .rules(let logged): return [logged]
        case .rolledBack, .end: return []
        }
    }
}
