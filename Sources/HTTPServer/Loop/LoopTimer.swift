import CEvent
import Glibc
import Runtime

/// Work that a loop does later, or again and again. Belongs to its loop's thread.
public final class LoopTimer: Hashable {
    private var event: OpaquePointer?
    private var work: (() -> Void)?
    private let repeats: Bool
    /// nil once cancelled or fired: the loop and its timers hold one another until then.
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

    /// Keeps the work from being done (again). May be called more than once, and from the work itself.
    public func cancel() {
        if let event { event_free(event) }
        event = nil
        work = nil
        loop?.forget(self)
        loop = nil
    }

    private func fire() {
        // `work` is held here: it may cancel the timer.
        let work = work
        let stretches = loop?.stretches
        if !repeats { cancel() }
        stretches?.measure("timer") { work?() }
    }

    public static func == (left: LoopTimer, right: LoopTimer) -> Bool { left === right }

    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
