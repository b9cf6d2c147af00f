import ClientCore
import Runtime
import Synchronization
import TLS

/// One thread that does the input and output of all connections of a transport.
//
// @unchecked Sendable: `shared` is protected by a Mutex, `poller` never changes and any thread may wake it. Only the
// loop's thread uses everything else (before it starts: only `init`).
final class ClientLoop: @unchecked Sendable {
    private struct Shared {
        var calls: [@Sendable (ClientLoop) -> Void] = []
        var isStopping = false
    }

    let settings: TransportSettings
    let trust: TLSTrust?
    let poller: SocketPoller
    /// The buffer for input, which the connections use in turn.
    let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: 128 * 1024, alignment: 16)

    private let shared = Mutex(Shared())
    private var lastID: UInt64 = 0
    private var owners: [UInt64: ConnectionRunner] = [:]
    /// The runners, by their channels.
    private var runners: [ObjectIdentifier: ConnectionRunner] = [:]
    /// The deadlines of runners that have one.
    private var timed: [ObjectIdentifier: Int64] = [:]
    /// Runners that have more to do without an event of their socket.
    private var eager: [ConnectionRunner] = []

    /// Returns nil if the system has no more descriptors or threads.
    init?(_ settings: TransportSettings, trust: TLSTrust?) {
        guard let poller = SocketPoller() else { return nil }
        self.settings = settings
        self.trust = trust
        self.poller = poller
        let thread = Thread(name: "pathmirror-net", isVital: false, blocksSignals: true) { self.run() }
        guard thread.isStarted else { return nil }
        thread.detach()
    }

    deinit {
        scratch.deallocate()
    }

    /// Runs `call` on the loop's thread, after earlier calls. Returns false without running it once the loop is
    /// stopping. Any thread.
    @discardableResult
    func call(_ call: @escaping @Sendable (ClientLoop) -> Void) -> Bool {
        let (isTaken, needsWake) = shared.withLock { shared -> (Bool, Bool) in
            guard !shared.isStopping else { return (false, false) }
            shared.calls.append(call)
            return (true, shared.calls.count == 1)
        }
        if needsWake { poller.wake() }
        return isTaken
    }

    /// Ends all connections and the thread. Any thread.
    func stop() {
        shared.withLock { $0.isStopping = true }
        poller.wake()
    }

    // MARK: Calls of the runners, on the loop's thread

    /// Waits for events of a socket, which the runner receives with the returned id. Returns nil if the system refuses.
    func watch(_ socket: Int32, for runner: ConnectionRunner, read: Bool, write: Bool) -> UInt64? {
        lastID += 1
        guard poller.add(socket, id: lastID, read: read, write: write) else { return nil }
        owners[lastID] = runner
        return lastID
    }

    func unwatch(_ socket: Int32, id: UInt64) {
        poller.remove(socket)
        owners[id] = nil
    }

    func begin(_ runner: ConnectionRunner) {
        runners[runner.id] = runner
        runner.begin()
    }

    func lookedUp(_ channel: WebSocketChannel, _ addresses: Result<[SocketAddress], LookupFailure>) {
        runners[ObjectIdentifier(channel)]?.lookedUp(addresses)
    }

    func attend(to channel: WebSocketChannel) { runners[ObjectIdentifier(channel)]?.attend() }

    func ended(_ runner: ConnectionRunner) {
        runners[runner.id] = nil
        timed[runner.id] = nil
    }

    /// Sets the runner's deadline; nil removes it.
    func setDeadline(_ deadline: Int64?, for runner: ConnectionRunner) {
        timed[runner.id] = deadline
    }

    /// Makes the runner continue before the loop waits for events.
    func resumeSoon(_ runner: ConnectionRunner) { eager.append(runner) }

    // MARK: The thread

    private func run() {
        while true {
            for ready in poller.wait(milliseconds: timeout()) { owners[ready.id]?.isReady(ready) }
            let (calls, isStopping) = shared.withLock { shared in
                defer { shared.calls = [] }
                return (shared.calls, shared.isStopping)
            }
            for call in calls { call(self) }
            let waiting = eager
            eager = []
            for runner in waiting { runner.resume() }
            passTime()
            if isStopping { break }
        }
        for runner in Array(runners.values) { runner.end(.byUs) }
    }

    private func timeout() -> Int32 {
        guard eager.isEmpty else { return 0 }
        guard let next = timed.values.min() else { return -1 }
        return Int32(clamping: max(0, next - Clock.monotonicMilliseconds + 1))
    }

    private func passTime() {
        guard !timed.isEmpty else { return }
        let now = Clock.monotonicMilliseconds
        for (id, deadline) in timed where deadline <= now {
            timed[id] = nil
            runners[id]?.timePassed(now: now)
        }
    }
}
