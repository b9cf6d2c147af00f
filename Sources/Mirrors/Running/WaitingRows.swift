import Runtime

/// Schedules retries of records that a foreign key refused: the row that theirs refers to may have come by now, or the row that refers to theirs
/// may be gone.
///
///     begins to wait ──► fresh: tried after 0.2 s, 0.4 s, …, 6.4 s ──► rounds
///     found in the database (a restart, a command, many at once) ────► rounds
///
/// A round tries all records of a mirror that wait, in their order in the database, in slices. A slice takes about a quarter of a second, and the
/// next follows after as long a pause, so that other mirrors move in between. The next round follows soon if some record got what it waited for;
/// else after a pause that grows to half a minute. New records don't shorten that pause: they are fresh ones.
///
/// Times are monotonic, in milliseconds.
struct WaitingRows {
    /// What to try now.
    enum Choice: Equatable {
        case fresh([String])
        /// The records after a place, at most so many.
        case slice(after: [UInt8]?, limit: Int)
    }

    private struct Wait {
        var fresh: Set<String> = []
        var freshAt: Int64 = 0
        var freshTries = 0
        /// The place up to which the round under way has come; nil at its beginning.
        var place: [UInt8]?
        var hasSucceeded = false
        /// The last round has found no record.
        var isIdle = false
        var roundAt: Int64 = 0
        var backoff: Backoff
        var limit = WaitingRows.firstLimit
    }

    private let settings: MirrorSettings
    /// By the mirrors' names.
    private var waits: [String: Wait] = [:]

    /// Records that are tried at once: at first, at least and at most.
    static let firstLimit = 50
    static let limits = 10...500
    static let sliceMilliseconds: Int64 = 250
    /// Tries of fresh records until they are left to the rounds.
    static let freshTries = 6

    init(_ settings: MirrorSettings) { self.settings = settings }

    /// When a mirror's records are tried next. At once for one that is not known: a command of an operator may have left records that wait.
    func retryAt(_ name: String) -> Int64 {
        guard let wait = waits[name] else { return 0 }
        return wait.fresh.isEmpty ? wait.roundAt : min(wait.freshAt, wait.roundAt)
    }

    /// What is to be tried of a mirror now, if anything. It is chosen again only after a pause, even where nothing is said of what became of it.
    mutating func next(_ name: String, _ now: Int64) -> Choice? {
        var wait = waits[name] ?? Wait(backoff: newBackoff)
        defer { waits[name] = wait }
        if !wait.fresh.isEmpty, wait.freshAt <= now {
            wait.freshAt = now + pause(afterTries: wait.freshTries)
            return .fresh(wait.fresh.sorted())
        }
        guard wait.roundAt <= now else { return nil }
        wait.roundAt = now + settings.firstRetryMilliseconds
        return .slice(after: wait.place, limit: wait.limit)
    }

    /// Notes records of a mirror that begin to wait.
    mutating func began(_ records: [String], of name: String, _ now: Int64) {
        var wait = waits[name] ?? Wait(backoff: newBackoff)
        if wait.fresh.isEmpty {
            wait.freshTries = 0
            wait.freshAt = now + pause(afterTries: 0)
        }
        // More than are tried at once are left to the rounds.
        wait.fresh.formUnion(records.prefix(max(0, wait.limit - wait.fresh.count)))
        if wait.isIdle {
            wait.isIdle = false
            wait.roundAt = min(wait.roundAt, now + wait.backoff.nextMilliseconds())
        }
        waits[name] = wait
    }

    /// Notes what became of fresh records.
    ///
    /// - Parameter left: those that still wait.
    mutating func triedFresh(_ name: String, left: Set<String>, _ now: Int64) {
        guard var wait = waits[name] else { return }
        wait.freshTries += 1
        wait.fresh = wait.freshTries < Self.freshTries ? wait.fresh.intersection(left) : []
        wait.freshAt = now + pause(afterTries: wait.freshTries)
        waits[name] = wait
    }

    /// Notes what became of a slice.
    ///
    /// - Parameters:
    ///   - count: the records that were found.
    ///   - place: that of the last one.
    ///   - left: how many of them still wait.
    ///   - began: when they were chosen.
    mutating func triedSlice(
        _ name: String, count: Int, place: [UInt8]?, left: Int, began: Int64, _ now: Int64
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
            wait.place = place
            wait.roundAt = now + took
            return
        }
        wait.isIdle = count == 0 && wait.place == nil
        if wait.hasSucceeded || wait.isIdle { wait.backoff.reset() }
        wait.roundAt =
            now + (wait.isIdle ? settings.maxRetryMilliseconds : max(took, wait.backoff.nextMilliseconds()))
        wait.place = nil
        wait.hasSucceeded = false
    }

    /// Forgets mirrors that do not run any more.
    mutating func keep(_ names: Set<String>) { waits = waits.filter { names.contains($0.key) } }

    private var newBackoff: Backoff {
        Backoff(
            firstMilliseconds: settings.firstRetryMilliseconds, longestMilliseconds: settings.maxRetryMilliseconds)
    }

    private func pause(afterTries tries: Int) -> Int64 {
        min(settings.firstRetryMilliseconds << Int64(tries), settings.maxRetryMilliseconds)
    }
}
