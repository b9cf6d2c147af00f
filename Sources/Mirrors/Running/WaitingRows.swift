import LogStore
import Postgres
import Runtime
import Tree

/// When to try records again for which another table is in the way, by a foreign key: the row that theirs refers to may have come by now, or
/// the row that refers to theirs may be gone.
struct WaitingRows {
    private struct Wait {
        var retryAt: Int64
        var backoff: Backoff
    }

    private let settings: MirrorSettings
    /// By the mirrors' names.
    private var waits: [String: Wait] = [:]

    /// Records that are tried in one step of a mirror.
    private static let recordsAtOnce = 500

    init(_ settings: MirrorSettings) { self.settings = settings }

    /// The monotonic time in milliseconds at which a mirror is looked at next; a command of an operator may have left records that wait.
    func retryAt(_ name: String) -> Int64 { waits[name]?.retryAt ?? 0 }

    /// The captured keys of records of a mirror that are to be read again now; none before its time has come, and none where none wait.
    mutating func records(of mirror: ActiveMirror, _ target: PostgresConnection) throws -> [[Key]] {
        guard retryAt(mirror.name) <= Clock.monotonicMilliseconds else { return [] }
        let records = try MirrorErrors.records(
            target, mirror.asGeneration, refusedFor: ActiveMirror.forNow, limit: Self.recordsAtOnce)
        if records.isEmpty { wait(for: mirror.name, milliseconds: settings.maxRetryMilliseconds) }
        return mirror.keys(of: records)
    }

    /// Notes that some records of a mirror begin to wait, or that some have got what they waited for.
    mutating func expect(_ name: String) {
        waits[name] = nil
        tried(name)
    }

    /// Notes that records of a mirror were tried, in vain.
    mutating func tried(_ name: String) {
        var backoff =
            waits[name]?.backoff
            ?? Backoff(
                firstMilliseconds: settings.firstRetryMilliseconds,
                longestMilliseconds: settings.maxRetryMilliseconds)
        let pause = backoff.nextMilliseconds()
        waits[name] = Wait(retryAt: Clock.monotonicMilliseconds + pause, backoff: backoff)
    }

    private mutating func wait(for name: String, milliseconds: Int64) {
        let backoff = Backoff(
            firstMilliseconds: settings.firstRetryMilliseconds, longestMilliseconds: settings.maxRetryMilliseconds)
        waits[name] = Wait(retryAt: Clock.monotonicMilliseconds + milliseconds, backoff: backoff)
    }

    /// Forgets mirrors that do not run any more.
    mutating func keep(_ names: Set<String>) { waits = waits.filter { names.contains($0.key) } }
}
