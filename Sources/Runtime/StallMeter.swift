internal import Synchronization

/// Measures the stalls of a thread that others wait for (an event loop, a committer): how long it works on one task
/// without a pause. Keeps the longest stall of the last minutes, and reports stalls that were too long.
///
/// `measure` and `elapsedNanoseconds` are for the measured thread only; any thread may use the rest.
//
// @unchecked Sendable: only the measured thread accesses the fields that are not atomic.
public final class StallMeter: @unchecked Sendable {
    /// Receives a stall of at least `tooLongNanoseconds`: its main cause and its duration. Called at most once per
    /// second, with the number of such stalls since the last call.
    public typealias Warning = @Sendable (_ kind: String, _ nanoseconds: UInt64, _ count: Int) -> Void

    /// Length of one of the two windows over which `longest` is computed.
    private static let windowNanoseconds: UInt64 = 60_000_000_000

    public let name: String
    private let tooLongNanoseconds: UInt64
    private let warning: Warning
    private let now: @Sendable () -> UInt64
    private let newest = Atomic<UInt64>(0)
    private let former = Atomic<UInt64>(0)
    private let windowBegan = Atomic<UInt64>(0)
    private let tooLong = Atomic<Int>(0)

    private var began: UInt64 = 0
    private var depth = 0
    /// The task that took the largest part of the current stall.
    private var kind: StaticString = ""
    private var kindNanoseconds: UInt64 = 0
    private var lastWarning: UInt64 = 0
    private var unsaid = 0

    /// - Parameter now: nanoseconds of a clock that never decreases.
    public init(
        name: String, tooLongMilliseconds: Milliseconds,
        now: @escaping @Sendable () -> UInt64 = { Clock.monotonicNanoseconds },
        warning: @escaping Warning
    ) {
        self.name = name
        tooLongNanoseconds = UInt64(max(0, tooLongMilliseconds)) * 1_000_000
        self.now = now
        self.warning = warning
    }

    /// Runs a task for which other work has to wait. Within another `measure`, the task counts as part of that stall.
    @inline(__always)
    public func measure<Result>(_ kind: StaticString, _ body: () -> Result) -> Result {
        let start = begin(kind)
        defer { end(kind, start) }
        return body()
    }

    /// The duration of the current stall; 0 outside of one.
    public var elapsedNanoseconds: UInt64 { depth > 0 ? now() - began : 0 }

    /// The longest stall of the last one to two minutes, in nanoseconds.
    public var longest: UInt64 {
        let time = now()
        let began = windowBegan.load(ordering: .relaxed)
        let current = newest.load(ordering: .relaxed)
        if time < began + Self.windowNanoseconds { return max(current, former.load(ordering: .relaxed)) }
        return time < began + 2 * Self.windowNanoseconds ? current : 0
    }

    /// The number of stalls that were too long.
    public var tooLongCount: Int { tooLong.load(ordering: .relaxed) }

    private func begin(_ kind: StaticString) -> UInt64 {
        let time = now()
        if depth == 0 {
            began = time
            self.kind = kind
            kindNanoseconds = 0
        }
        depth += 1
        return time
    }

    private func end(_ kind: StaticString, _ start: UInt64) {
        let time = now()
        depth -= 1
        let took = time - start
        guard depth == 0 else {
            if took > kindNanoseconds {
                self.kind = kind
                kindNanoseconds = took
            }
            return
        }
        if kindNanoseconds * 2 < took { self.kind = kind }
        note(took, at: time)
    }

    private func note(_ took: UInt64, at time: UInt64) {
        if time >= windowBegan.load(ordering: .relaxed) + Self.windowNanoseconds {
            let isNext = time < windowBegan.load(ordering: .relaxed) + 2 * Self.windowNanoseconds
            former.store(isNext ? newest.load(ordering: .relaxed) : 0, ordering: .relaxed)
            newest.store(0, ordering: .relaxed)
            windowBegan.store(time, ordering: .relaxed)
        }
        if took > newest.load(ordering: .relaxed) { newest.store(took, ordering: .relaxed) }
        guard tooLongNanoseconds > 0, took >= tooLongNanoseconds else { return }
        tooLong.wrappingAdd(1, ordering: .relaxed)
        unsaid += 1
        guard lastWarning == 0 || time - lastWarning >= 1_000_000_000 else { return }
        warning("\(kind)", took, unsaid)
        lastWarning = time
        unsaid = 0
    }
}

extension Logger {
    /// Warns about a stall of a thread that others wait for.
    ///
    /// - Parameter count: the number of such stalls since the last warning.
    public func longStall(of thread: String, _ kind: String, _ nanoseconds: UInt64, _ count: Int) {
        self.warning(
            "one step blocked a thread for too long",
            [
                ("thread", thread), ("by", kind), ("milliseconds", "\(nanoseconds / 1_000_000)"),
                ("times", "\(count)"),
            ])
    }
}
