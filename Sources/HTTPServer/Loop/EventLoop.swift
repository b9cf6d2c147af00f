import CEvent
import Glibc
public import Runtime
import Synchronization

/// One thread that waits for sockets, timers and posted work, and serves its connections.
///
/// `post`, `index`, `isCurrent` may be used from any thread; everything else only on the loop's own thread.
//
// @unchecked Sendable: `tasks` is protected by a Mutex and `thread` is atomic; `base` and `wakeDescriptor` never
// change. Only the loop's thread uses `service`, `wakeEvent`, `running` and `timers` (before it starts and after it has
// ended: only the thread that starts and joins it).
public final class EventLoop: @unchecked Sendable {
    public typealias Work = @Sendable () -> Void

    /// The loop's position in `HTTPServer.loops`.
    public let index: Int
    /// Measures the stalls of this loop.
    public let stallMeters: StallMeter

    let base: OpaquePointer
    private let wakeDescriptor: Int32
    private var wakeEvent: OpaquePointer?
    private var turnEvent: OpaquePointer?
    private let tasks = Mutex(Tasks())
    private let thread = Atomic<UInt>(0)
    /// Work removed from `tasks`; kept for its capacity.
    private var running: [Work] = []
    private var nextRunning = 0
    private var timers: Set<LoopTimer> = []
    /// The service of this loop's connections; set while the loop runs.
    var service: LoopService?

    private struct Tasks {
        var waiting: [Work] = []
        var isClosed = false
    }

    init(index: Int, _ settings: HTTPServerSettings) throws(HTTPServerError) {
        self.index = index
        let onLongStall = settings.onLongStall
        let name = "http-\(index)"
        stallMeters = StallMeter(name: name, tooLongMilliseconds: settings.longStallMilliseconds) {
            kind, time, count in
            onLongStall(name, kind, time, count)
        }
        guard let config = event_config_new() else {
            throw .cannotStartLoop(step: "event_config_new", errorNumber: ENOMEM)
        }
        defer { event_config_free(config) }
        // Only the loop's thread uses the base: the eventfd signals posted work.
        event_config_set_flag(config, Int32(EVENT_BASE_FLAG_NOLOCK.rawValue))
        guard let base = event_base_new_with_config(config) else {
            throw .cannotStartLoop(step: "event_base_new", errorNumber: errno)
        }
        let descriptor = pathmirror_eventfd()
        guard descriptor >= 0 else {
            let number = errno
            event_base_free(base)
            throw .cannotStartLoop(step: "eventfd", errorNumber: number)
        }
        self.base = base
        wakeDescriptor = descriptor
    }

    deinit {
        if let wakeEvent { event_free(wakeEvent) }
        if let turnEvent { event_free(turnEvent) }
        event_base_free(base)
        _ = Glibc.close(wakeDescriptor)
    }

    /// Whether the caller is on this loop's thread.
    public var isCurrent: Bool {
        thread.load(ordering: .relaxed) == UInt(pthread_self())
    }

    /// Runs `work` on the loop's thread, after all work posted before it. May be called on any thread, including the
    /// loop's own.
    ///
    /// Returns false and drops `work` if the loop has ended. A burst of posts costs one wake-up.
    @discardableResult
    public func post(_ work: @escaping Work) -> Bool {
        let (isAccepted, needsWake) = tasks.withLock { tasks -> (Bool, Bool) in
            guard !tasks.isClosed else { return (false, false) }
            tasks.waiting.append(work)
            return (true, tasks.waiting.count == 1)
        }
        if needsWake { wake() }
        return isAccepted
    }

    /// Runs `work` on the loop after a delay, unless cancelled before. Loop thread only.
    @discardableResult
    public func schedule(afterMilliseconds delay: Milliseconds, _ work: @escaping () -> Void) -> LoopTimer {
        let timer = LoopTimer(loop: self, repeats: false, work)
        timers.insert(timer)
        timer.start(milliseconds: Milliseconds(delay))
        return timer
    }

    /// Runs `work` periodically until cancelled. Loop thread only.
    @discardableResult
    public func schedule(everyMilliseconds period: Milliseconds, _ work: @escaping () -> Void) -> LoopTimer {
        let timer = LoopTimer(loop: self, repeats: true, work)
        timers.insert(timer)
        timer.start(milliseconds: Milliseconds(period))
        return timer
    }

    /// Returns the exchange of `reference`, if it is still open. Loop thread only.
    public func exchange(for reference: ExchangeReference) -> HTTPExchange? {
        guard reference.loop === self else { return nil }
        return service?.exchange(for: reference)
    }

    func forget(_ timer: LoopTimer) {
        timers.remove(timer)
    }

    private func wake() {
        if isCurrent { return runInNextIteration() }
        var one: UInt64 = 1
        // The write can fail only if the counter is full; then a wake-up is already pending.
        _ = write(wakeDescriptor, &one, 8)
    }
}

// MARK: - The thread

extension EventLoop {
    /// Runs until `stopRunning`. Calls `prepare` first, on this thread.
    func run(prepare: () -> Void) {
        thread.store(UInt(pthread_self()), ordering: .relaxed)
        let context = Unmanaged.passUnretained(self).toOpaque()
        wakeEvent = event_new(
            base, wakeDescriptor, Int16(EV_READ | EV_PERSIST),
            { descriptor, _, context in
                guard let context else { return }
                var count: UInt64 = 0
                _ = read(descriptor, &count, 8)
                Unmanaged<EventLoop>.fromOpaque(context).takeUnretainedValue().runPosted()
            }, context)
        if let wakeEvent { event_add(wakeEvent, nil) }
        turnEvent = event_new(
            base, -1, 0,
            { _, _, context in
                guard let context else { return }
                Unmanaged<EventLoop>.fromOpaque(context).takeUnretainedValue().runPosted()
            }, context)
        prepare()
        event_base_loop(base, 0)
        close()
    }

    /// Makes `run` return after the current callback. Loop thread only.
    func stopRunning() {
        event_base_loopbreak(base)
    }

    private func runPosted() {
        // Work that is posted meanwhile waits for the next round, so that sockets are not starved.
        if nextRunning == running.count {
            running.removeAll(keepingCapacity: running.capacity <= 1024)
            nextRunning = 0
            tasks.withLock { swap(&$0.waiting, &running) }
        }
        stallMeters.measure("posted work") {
            while nextRunning < running.count {
                running[nextRunning]()
                nextRunning += 1
                if isSliceOver { break }
            }
        }
        let hasMore = nextRunning < running.count || tasks.withLock { !$0.waiting.isEmpty }
        if hasMore { runInNextIteration() }
    }

    /// Runs posted work after the sockets' next events. An event that is made active at once would run before them, and
    /// work that posts more work would delay them forever.
    private func runInNextIteration() {
        var now = timeval(tv_sec: 0, tv_usec: 0)
        if let turnEvent { event_add(turnEvent, &now) }
    }

    /// Whether the current work has used up its slice of the loop's time: the rest should wait for the next slice.
    public var isSliceOver: Bool { stallMeters.elapsedNanoseconds > Self.sliceNanoseconds }

    private static let sliceNanoseconds: UInt64 = 5_000_000

    private func close() {
        let rest = tasks.withLock { tasks -> [Work] in
            tasks.isClosed = true
            defer { tasks.waiting = [] }
            return tasks.waiting
        }
        for work in running[nextRunning...] + rest { work() }
        running.removeAll()
        nextRunning = 0
        for timer in timers { timer.cancel() }
        service = nil
        if let wakeEvent { event_free(wakeEvent) }
        if let turnEvent { event_free(turnEvent) }
        wakeEvent = nil
        turnEvent = nil
        thread.store(0, ordering: .relaxed)
    }
}

/// Work that a loop runs later, once or periodically. Belongs to its loop's thread.
public final class LoopTimer: Hashable {
    private var event: OpaquePointer?
    private var work: (() -> Void)?
    private let repeats: Bool
    /// nil once cancelled or fired: the loop and its timers retain each other until then.
    private var loop: EventLoop?

    init(loop: EventLoop, repeats: Bool, _ work: @escaping () -> Void) {
        self.loop = loop
        self.repeats = repeats
        self.work = work
    }

    deinit {
        if let event { event_free(event) }
    }

    func start(milliseconds: Milliseconds) {
        let flags = Int16(repeats ? EV_PERSIST : 0)
        guard let loop else { return }
        event = event_new(
            loop.base, -1, flags,
            { _, _, context in
                guard let context else { return }
                Unmanaged<LoopTimer>.fromOpaque(context).takeUnretainedValue().fire()
            }, Unmanaged.passUnretained(self).toOpaque())
        let delay = max(0, milliseconds)
        var time = timeval(tv_sec: Int(delay / 1000), tv_usec: Int(delay % 1000 * 1000))
        if let event { event_add(event, &time) }
    }

    /// Prevents further runs of the work. May be called more than once, and from the work itself.
    public func cancel() {
        if let event { event_free(event) }
        event = nil
        work = nil
        loop?.forget(self)
        loop = nil
    }

    private func fire() {
        // The local reference keeps `work` alive, because it may cancel the timer.
        let work = work
        let stallMeters = loop?.stallMeters
        if !repeats { cancel() }
        stallMeters?.measure("timer") { work?() }
    }

    public static func == (left: LoopTimer, right: LoopTimer) -> Bool { left === right }

    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
