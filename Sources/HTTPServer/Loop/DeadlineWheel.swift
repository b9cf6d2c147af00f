import Runtime

/// Deadlines of many connections, checked in buckets. No clock, no I/O: the loop passes the time.
///
/// A connection stores its deadline in its own field and is in at most one bucket. Moving a deadline *later* costs
/// nothing here: the bucket's turn finds that the deadline is not due and files it again. Only an earlier deadline is
/// filed at once; the stale entry is recognised by its tick and dropped.
struct DeadlineWheel {
    /// A connection, and the tick for which it was filed.
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

    /// Files a connection for a deadline, and returns the tick at which it is checked. That tick may be earlier than
    /// the deadline if the deadline is beyond the wheel's reach, and is never more than one tick later.
    mutating func file(_ connection: UInt64, deadlineMilliseconds: Milliseconds) -> Int {
        let wanted = tick(of: deadlineMilliseconds)
        let tick = min(max(wanted, lastTick + 1), lastTick + buckets.count - 1)
        buckets[tick % buckets.count].append(Entry(connection: connection, tick: tick))
        return tick
    }

    /// Returns the tick at which a deadline would be checked, to compare with the result of `file`.
    func tick(of deadlineMilliseconds: Milliseconds) -> Int {
        Int((deadlineMilliseconds + tickMilliseconds - 1) / tickMilliseconds)
    }

    /// Removes and returns the buckets whose tick has come, so that `file` may be called while they are processed.
    mutating func take(nowMilliseconds: Milliseconds) -> [[Entry]] {
        let nowTick = Int(nowMilliseconds / tickMilliseconds)
        guard nowTick > lastTick else { return [] }
        var taken: [[Entry]] = []
        // Each bucket is taken at most once, regardless of how long the loop slept.
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

    /// The number of entries, including stale ones.
    var count: Int { buckets.reduce(0) { $0 + $1.count } }
}
