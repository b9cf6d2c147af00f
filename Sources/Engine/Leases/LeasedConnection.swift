import LogStore
import Runtime
import Synchronization

/// The connection under which a gateway has its lease: does what `LeaseMachine` says, and ends the leases of gateways that
/// `BeatWatch` finds to be dead. Belongs to the lease's thread.
final class LeasedConnection {
    private let core: EngineCore
    private let leases: GatewayLeases
    private var machine: LeaseMachine
    private var watch: BeatWatch
    private var connection: LogConnection?

    init(_ core: EngineCore, _ leases: GatewayLeases) {
        self.core = core
        self.leases = leases
        machine = LeaseMachine(renewalMilliseconds: core.settings.heartbeatMilliseconds)
        watch = BeatWatch(
            leaseExpiryMilliseconds: core.settings.leaseExpiryMilliseconds,
            beatMilliseconds: core.settings.heartbeatMilliseconds)
    }

    var nextRenewal: Int64 { machine.nextRenewal }

    // MARK: The connection

    /// A connection that works, as far as this side knows.
    func connected() throws(LogStoreError) -> LogConnection {
        // A connection that is lost is replaced before something is sent by it whose outcome would be unknown.
        if let connection, connection.isOpen, (try? connection.checkConnection()) != nil { return connection }
        disconnect()
        let new = try core.connect("sessions")
        connection = new
        return new
    }

    func disconnect() {
        connection?.close()
        connection = nil
        machine.connectionLost()
        watch.forget()
    }

    /// The gateway stops in order: nobody needs to wait for its lease to expire.
    func close() {
        if let connection, connection.isOpen, let lease = machine.held { try? connection.endLease(lease) }
        connection?.close()
    }

    // MARK: The lease

    func start() { machine.start() }

    func next() -> LeaseMachine.Step {
        machine.next(
            LeaseMachine.Circumstances(
                now: Clock.monotonicMilliseconds, isDatabaseUp: core.health.isUp, history: core.historyNumber,
                isComparing: core.namespaces.all.contains(where: \.isSuspect)))
    }

    func giveUp(_ lease: GatewayLease?, _ connection: LogConnection) throws(LogStoreError) {
        let history = core.historyNumber
        if let lease { try connection.endLease(lease) }
        machine.gaveUp(for: history)
        leases.changed(to: machine.number)
    }

    func takeOver(_ lease: GatewayLease, _ connection: LogConnection) throws(LogStoreError) {
        machine.tookOver(try connection.takeOver(lease))
        leases.changed(to: machine.number)
    }

    func begin(_ connection: LogConnection) throws(LogStoreError) {
        // Another id each time: what was sent under an earlier one must never be taken again.
        machine.began(try connection.beginLease(Batch.makeID()))
    }

    func settled() { machine.settled() }

    /// False where the lease has expired.
    func renew(_ lease: GatewayLease, _ connection: LogConnection) throws(LogStoreError) -> Bool {
        let beat = try connection.heartbeat(lease)
        machine.renewed(beat, now: Clock.monotonicMilliseconds)
        leases.changed(to: machine.number)
        return beat != nil
    }

    /// PostgreSQL has refused something, as the lease has expired.
    func lost() {
        machine.lost()
        leases.changed(to: machine.number)
    }

    // MARK: The others' leases

    /// Ends the leases of gateways that give no sign of life.
    func endExpiredLeases(_ lease: GatewayLease, _ connection: LogConnection) throws(LogStoreError) {
        let asked = Clock.monotonicMilliseconds
        let beats = try connection.beats(otherThan: lease)
        for expired in watch.look(beats, asked: asked, answered: Clock.monotonicMilliseconds) {
            if try connection.endLease(of: expired) {
                core.logger.warning(
                    "a gateway gives no sign of life: its sessions are ended", [("lease", expired.gateway)])
            }
        }
    }

    /// This gateway could not look at the others.
    func couldNotLook() { watch.forget() }
}

/// Tells which lease this gateway has. Any thread may ask.
///
/// A gateway's lease says that it lives: while its row is in the database no other gateway executes the onDisconnect
/// operations that were saved under it. `LeasedConnection` keeps it.
public final class GatewayLeases: Sendable {
    private struct State {
        var current = LeaseNumber.first
        var onExpired: (@Sendable () -> Void)?
    }
    private let state = Mutex(State())

    init() {}

    /// The lease under which sessions begin now.
    public var current: LeaseNumber { state.withLock { $0.current } }

    /// Calls back when the lease has expired: other gateways execute what its sessions had asked for. The sessions must be
    /// closed, so that their clients ask for it anew. Called on the lease's thread, without a lock; must return soon.
    public func onExpired(_ body: @escaping @Sendable () -> Void) {
        state.withLock { $0.onExpired = body }
    }

    /// From now on sessions begin under this lease.
    func changed(to number: LeaseNumber) {
        let body = state.withLock { state -> (@Sendable () -> Void)? in
            guard state.current != number else { return nil }
            state.current = number
            return state.onExpired
        }
        body?()
    }
}

/// Which of a gateway's leases: they are counted. Other gateways have executed the onDisconnect operations that were saved
/// under an earlier lease than the present one, or will.
public struct LeaseNumber: Sendable, Equatable {
    let value: Int

    init(_ value: Int) { self.value = value }

    static let first = LeaseNumber(1)

    var next: LeaseNumber { LeaseNumber(value + 1) }
}
