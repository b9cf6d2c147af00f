import Runtime

/// Schedules retries of records that a foreign key rejected: the row to which theirs refers may exist by now, or the row that
/// refers to theirs may have been removed.
///
///     begins to wait ──► fresh: tried after 0.2 s, 0.4 s, …, 6.4 s ──► rounds
///     found in the database (a restart, a command, many at once) ────► rounds
///
/// A round tries all waiting records of a mirror in slices, in their order in the database. A slice takes about a quarter of a
/// second, and the next one follows after an equally long pause, so that other mirrors move in between. The next round follows
/// soon if a record was written, otherwise after a pause that grows to half a minute. New records don't shorten that pause,
/// because they are fresh ones.
///
/// Times are monotonic, in milliseconds.
struct WaitingRows {
    /// The records to try now.
    enum Choice: Equatable {
        case fresh([String])
        /// Up to `limit` records after one record's position in the database.
        case slice(after: [UInt8]?, limit: Int)
    }

    private struct Wait {
        var fresh: Set<String> = []
        var freshAt: Int64 = 0
        var freshTries = 0
        /// The position that the current round has reached, or nil at its beginning.
        var position: [UInt8]?
        var hasSucceeded = false
        /// Whether the last round has found no record.
        var isIdle = false
        var roundAt: Int64 = 0
        var backoff: Backoff
        var limit = WaitingRows.firstLimit
    }

    private let settings: MirrorSettings
    /// The waiting records by mirror name.
    private var waits: [String: Wait] = [:]

    /// The number of records tried at once: the first value, and the limits.
    static let firstLimit = 50
    static let limits = 10...500
    static let sliceMilliseconds: Int64 = 250
    /// The number of attempts with fresh records before they are left to the rounds.
    static let freshTries = 6

    init(_ settings: MirrorSettings) { self.settings = settings }

    /// Returns the time of the next attempt for a mirror. Unknown mirrors are tried at once, because an operator's command may
    /// have left waiting records.
    func retryAt(_ name: String) -> Int64 {
        guard let wait = waits[name] else { return 0 }
        return wait.fresh.isEmpty ? wait.roundAt : min(wait.freshAt, wait.roundAt)
    }

    /// Returns the records of a mirror to try now, if any. They are chosen again only after a pause, even if no result was
    /// noted.
    mutating func next(_ name: String, _ now: Int64) -> Choice? {
        var wait = waits[name] ?? Wait(backoff: newBackoff)
        defer { waits[name] = wait }
        if !wait.fresh.isEmpty, wait.freshAt <= now {
            wait.freshAt = now + pause(afterTries: wait.freshTries)
            return .fresh(wait.fresh.sorted())
        }
        guard wait.roundAt <= now else { return nil }
        wait.roundAt = now + settings.firstRetryMilliseconds
        return .slice(after: wait.position, limit: wait.limit)
    }

    /// Notes records of a mirror that begin to wait.
    mutating func began(_ records: [String], of name: String, _ now: Int64) {
        var wait = waits[name] ?? Wait(backoff: newBackoff)
        if wait.fresh.isEmpty {
            wait.freshTries = 0
            wait.freshAt = now + pause(afterTries: 0)
        }
        // Records beyond the number tried at once are left to the rounds.
        wait.fresh.formUnion(records.prefix(max(0, wait.limit - wait.fresh.count)))
        if wait.isIdle {
            wait.isIdle = false
            wait.roundAt = min(wait.roundAt, now + wait.backoff.nextMilliseconds())
        }
        waits[name] = wait
    }

    /// Notes the result of an attempt with fresh records.
    ///
    /// - Parameter left: the records that still wait.
    mutating func triedFresh(_ name: String, left: Set<String>, _ now: Int64) {
        guard var wait = waits[name] else { return }
        wait.freshTries += 1
        wait.fresh = wait.freshTries < Self.freshTries ? wait.fresh.intersection(left) : []
        wait.freshAt = now + pause(afterTries: wait.freshTries)
        waits[name] = wait
    }

    /// Notes the result of an attempt with a slice.
    ///
    /// - Parameters:
    ///   - count: the number of records found.
    ///   - position: the position of the last one.
    ///   - left: the number of them that still wait.
    ///   - began: the time at which they were chosen.
    mutating func triedSlice(
        _ name: String, count: Int, position: [UInt8]?, left: Int, began: Int64, _ now: Int64
    ) {
        guard var wait = waits[name] else { return }
        defer { waits[name] = wait }
        wait.hasSucceeded = wait.hasSucceeded || left < count
        let took = max(1, now - began)
        let isLast = count < wait.limit
        if count > 0 {
            let fitting = Int(Int64(count) * Self.sliceMilliseconds / took)
            wait.limit = min(max(fitting, Self.limits.lowerBound), wait.limit * 4, Self.limits.upperBound)
        }
        guard isLast else {
            wait.position = position
            wait.roundAt = now + took
            return
        }
        wait.isIdle = count == 0 && wait.position == nil
        if wait.hasSucceeded || wait.isIdle { wait.backoff.reset() }
        wait.roundAt =
            now + (wait.isIdle ? settings.maxRetryMilliseconds : max(took, wait.backoff.nextMilliseconds()))
        wait.position = nil
        wait.hasSucceeded = false
    }

    /// Forgets mirrors that no longer run.
    mutating func keep(_ names: Set<String>) { waits = waits.filter { names.contains($0.key) } }

    private var newBackoff: Backoff {
        Backoff(
            firstMilliseconds: settings.firstRetryMilliseconds, longestMilliseconds: settings.maxRetryMilliseconds)
    }

    private func pause(afterTries tries: Int) -> Int64 {
        min(settings.firstRetryMilliseconds << Int64(tries), settings.maxRetryMilliseconds)
    }
}
