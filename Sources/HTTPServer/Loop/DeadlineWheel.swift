import Runtime

/// Deadlines of many connections, looked at in buckets. No clock, no I/O: the loop tells it the time.
///
/// A connection writes its deadline into a field of its own and is in one bucket at most; moving a deadline *later*
/// costs nothing here, as the bucket's turn finds that it is not due and files it anew. Only an earlier one is filed at
/// once, and the entry left behind is recognised by its tick and dropped.
struct DeadlineWheel {
    /// Which connection, and for which tick it was filed.
    struct Entry: Equatable {
        var connection: UInt64
        var tick: Int
    }

    private var buckets: [[Entry]]
    private let tickMilliseconds: Milliseconds
    private var lastTick: Int

    init(tickMilliseconds: Milliseconds, bucketCount: Int = 128, nowMilliseconds: Milliseconds) {
        self.tickMilliseconds = tickMilliseconds
        buckets = .init(repeating: [], count: bucketCount)
        lastTick = Int(nowMilliseconds / tickMilliseconds)
    }

    /// Files a connection for a deadline; the tick at which it will be looked at. That may be earlier than the deadline
    /// where this is beyond the wheel's reach, never more than a tick later.
    mutating func file(_ connection: UInt64, deadlineMilliseconds: Milliseconds) -> Int {
        let wanted = tick(of: deadlineMilliseconds)
        let tick = min(max(wanted, lastTick + 1), lastTick + buckets.count - 1)
        buckets[tick % buckets.count].append(Entry(connection: connection, tick: tick))
        return tick
    }

    /// The tick at which a deadline would be looked at, to compare with the tick that `file` answered.
    func tick(of deadlineMilliseconds: Milliseconds) -> Int {
        Int((deadlineMilliseconds + tickMilliseconds - 1) / tickMilliseconds)
    }

    /// Takes the buckets whose tick has come, so that `file` may be called while they are worked through.
    mutating func take(nowMilliseconds: Milliseconds) -> [[Entry]] {
        let nowTick = Int(nowMilliseconds / tickMilliseconds)
        guard nowTick > lastTick else { return [] }
        var taken: [[Entry]] = []
        // All buckets at most once, however long the loop slept.
        let steps = min(nowTick - lastTick, buckets.count)
        for step in 1...steps {
            let index = (nowTick - steps + step) % buckets.count
            if !buckets[index].isEmpty {
                taken.append(buckets[index])
                buckets[index] = []
            }
        }
        lastTick = nowTick
        return taken
    }

    /// Entries filed now, stale ones included.
    var count: Int { buckets.reduce(0) { $0 + $1.count } }
}
