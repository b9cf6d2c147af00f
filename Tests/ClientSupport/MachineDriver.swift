public import ClientCore
import Runtime

/// Runs a connection's machine over a transport on its own thread, like a client database. Must be stopped.
public final class MachineDriver: Sendable {
    private struct Inbox: Sendable {
        var calls: [@Sendable (Driven) -> Void] = []
        var isStopped = false
    }

    /// State that belongs to the thread.
    public final class Driven {
        public var machine: ConnectionMachine
        var channel: (any RealtimeChannel)?
        var hash: @Sendable (QuerySpec) -> String

        init(_ machine: ConnectionMachine, _ hash: @escaping @Sendable (QuerySpec) -> String) {
            self.machine = machine
            self.hash = hash
        }
    }

    private let inbox = Condition(Inbox())
    private let reports: Condition<[ConnectionReport]> = Condition([])
    private let transport: any RealtimeTransport
    private let thread: MutexBox<Thread?> = MutexBox(nil)

    /// - Parameter hash: Returns the hash of a listen's known data, when the listen is sent.
    public init(
        _ settings: ConnectionSettings, _ transport: any RealtimeTransport, seed: UInt64 = 1,
        hash: @escaping @Sendable (QuerySpec) -> String = { _ in "" }
    ) {
        self.transport = transport
        let started = Thread(name: "driver") { [self] in
            run(Driven(ConnectionMachine(settings, seed: seed), hash))
        }
        thread.withLock { $0 = started }
    }

    /// Runs `body` with the machine and the time, on the machine's thread.
    public func call(_ body: @escaping @Sendable (inout ConnectionMachine, Int64) -> Void) {
        inbox.signal { $0.calls.append { body(&$0.machine, Clock.monotonicMilliseconds) } }
    }

    public func stop() {
        inbox.signal { $0.isStopped = true }
        thread.withLock { $0 }?.join()
    }

    /// All reports so far, in order.
    public var reported: [ConnectionReport] { reports.withLock { $0 } }

    /// Waits until the condition holds. Returns false after a minute.
    public func wait(until isSo: ([ConnectionReport]) -> Bool) -> Bool {
        reports.wait(milliseconds: 60_000) { isSo($0) ? true : nil } ?? false
    }

    private func run(_ driven: Driven) {
        while true {
            let pause = driven.machine.deadline.map { max(0, $0 - Clock.monotonicMilliseconds) }
            let inbox = inbox.wait(milliseconds: pause) { inbox -> Inbox? in
                guard inbox.isStopped || !inbox.calls.isEmpty else { return nil }
                defer { inbox.calls = [] }
                return inbox
            }
            for call in inbox?.calls ?? [] {
                call(driven)
                carryOut(driven)
            }
            if inbox?.isStopped == true { break }
            driven.machine.timePassed(now: Clock.monotonicMilliseconds)
            carryOut(driven)
        }
        driven.channel?.close()
    }

    private func carryOut(_ driven: Driven) {
        while true {
            let effects = driven.machine.takeEffects()
            if effects.isEmpty { return }
            for effect in effects { carryOut(effect, driven) }
        }
    }

    private func carryOut(_ effect: ConnectionEffect, _ driven: Driven) {
        switch effect {
        case .open(let address, let number):
            driven.channel = transport.connect(to: address) { [weak self] event in
                self?.inbox.signal { inbox in
                    inbox.calls.append { driven in
                        driven.machine.transport(event, of: number, now: Clock.monotonicMilliseconds)
                        if case .received(let text) = event { driven.channel?.processed(text.count) }
                    }
                }
            }
        case .send(let text): driven.channel?.send(text)
        case .sendListen(let request):
            for text in request.messages(hash: driven.hash(request.spec)) { driven.channel?.send(text) }
        case .close: driven.channel?.close()
        case .askForToken: driven.machine.tokenProvided(nil, now: Clock.monotonicMilliseconds)
        case .askForAppCheckToken: break
        case .report(let report): reports.broadcast { $0.append(report) }
        }
    }
}
