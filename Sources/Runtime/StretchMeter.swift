internal import Synchronization

/// Measures for how long a thread that others wait for (an event loop, a committer) does one thing without a pause: the
/// longest stretch of the last minutes, and a word to somebody when one was too long.
///
/// `measure` and `elapsedNanoseconds` are for the thread itself, the rest for any.
//
// @unchecked Sendable: what is no atomic is touched by the measured thread only.
public final class StretchMeter: @unchecked Sendable {
    /// Told of a stretch over `tooLongNanoseconds`: what it was mostly spent on, and for how long. Not more often than once a
    /// second; then also how many there have been since.
    public typealias Warning = @Sendable (_ kind: String, _ nanoseconds: UInt64, _ count: Int) -> Void

    /// For how long a stretch counts as of the last minutes: between one and two of these.
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
    /// What took the largest part of the current stretch.
    private var kind: StaticString = ""
    private var kindNanoseconds: UInt64 = 0
    private var lastWarning: UInt64 = 0
    private var unsaid = 0

    /// - Parameter now: nanoseconds of a clock that never goes back.
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

    /// Does something that others have to wait for. Within another `measure` it is a part of that stretch.
    @inline(__always)
    public func measure<Result>(_ kind: StaticString, _ body: () -> Result) -> Result {
        let start = begin(kind)
        defer { end(kind, start) }
        return body()
    }

    /// How long the current stretch has lasted; 0 outside of one.
    public var elapsedNanoseconds: UInt64 { depth > 0 ? now() - began : 0 }

    /// The longest stretch of the last minute or two, in nanoseconds.
    public var longest: UInt64 {
        let time = now()
        let began = windowBegan.load(ordering: .relaxed)
        let current = newest.load(ordering: .relaxed)
        if time < began + Self.windowNanoseconds { return max(current, former.load(ordering: .relaxed)) }
        return time < began + 2 * Self.windowNanoseconds ? current : 0
    }

    /// How many stretches were too long.
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
    /// Warns that a thread that others wait for was kept busy for too long.
    ///
    /// - Parameter count: such stretches since the last warning.
    public func longStretch(of thread: String, _ kind: String, _ nanoseconds: UInt64, _ count: Int) {
        self.warning(
            "kept from all else for too long",
            [
                ("thread", thread), ("by", kind), ("milliseconds", "\(nanoseconds / 1_000_000)"),
                ("times", "\(count)"),
            ])
    }
}
