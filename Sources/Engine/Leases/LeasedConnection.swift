import LogStore
import Runtime
import Synchronization

/// The connection that owns the gateway's lease: executes the steps of `LeaseMachine`, and ends the leases of gateways
/// that `HeartbeatWatch` considers dead. Belongs to the lease's thread.
final class LeasedConnection {
    private let core: EngineCore
    private let leases: GatewayLeases
    private var machine: LeaseMachine
    private var watch: HeartbeatWatch
    private var connection: LogConnection?

    init(_ core: EngineCore, _ leases: GatewayLeases) {
        self.core = core
        self.leases = leases
        machine = LeaseMachine(renewalMilliseconds: core.settings.heartbeatMilliseconds)
        watch = HeartbeatWatch(
            leaseExpiryMilliseconds: core.settings.leaseExpiryMilliseconds,
            heartbeatMilliseconds: core.settings.heartbeatMilliseconds)
    }

    var nextRenewal: Int64 { machine.nextRenewal }

    // MARK: The connection

    /// Returns an open connection, and opens one if necessary.
    func connected() throws(LogStoreError) -> LogConnection {
        // A lost connection is replaced before a statement is sent whose outcome would be unknown.
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

    /// Ends the lease, so that other gateways need not wait until it expires, and closes the connection.
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
        // A new id each time: the database must never accept a statement that was sent under an earlier lease.
        machine.began(try connection.beginLease(Batch.makeID()))
    }

    func settled() { machine.settled() }

    /// Renews the lease. Returns false if it has expired.
    func renew(_ lease: GatewayLease, _ connection: LogConnection) throws(LogStoreError) -> Bool {
        let heartbeat = try connection.heartbeat(lease)
        machine.renewed(heartbeat, now: Clock.monotonicMilliseconds)
        leases.changed(to: machine.number)
        return heartbeat != nil
    }

    /// Records that PostgreSQL rejected a statement because the lease has expired.
    func lost() {
        machine.lost()
        leases.changed(to: machine.number)
    }

    // MARK: Leases of other gateways

    /// Ends the leases of gateways without heartbeats.
    func endExpiredLeases(_ lease: GatewayLease, _ connection: LogConnection) throws(LogStoreError) {
        let asked = Clock.monotonicMilliseconds
        let heartbeats = try connection.heartbeats(otherThan: lease)
        for expired in watch.look(heartbeats, asked: asked, answered: Clock.monotonicMilliseconds) {
            if try connection.endLease(of: expired) {
                core.logger.warning(
                    "a gateway has stopped its heartbeats: its sessions are ended", [("lease", expired.gateway)])
            }
        }
    }

    /// Records that this gateway could not check the other leases.
    func couldNotLook() { watch.forget() }
}

/// The number of this gateway's current lease. Any thread may read it.
///
/// A lease shows that a gateway is alive: while the lease's row is in the database, no other gateway executes the
/// onDisconnect operations that were saved under it. `LeasedConnection` maintains it.
public final class GatewayLeases: Sendable {
    private struct State {
        var current = LeaseNumber.first
        var onExpired: (@Sendable () -> Void)?
    }
    private let state = Mutex(State())

    init() {}

    /// The lease under which sessions begin now.
    public var current: LeaseNumber { state.withLock { $0.current } }

    /// Sets the function that is called when the lease has expired, after which other gateways execute the operations
    /// of its sessions. The function must close the sessions, so that their clients reconnect and register their
    /// operations again. It is called on the lease's thread, without a lock, and must return soon.
    public func onExpired(_ body: @escaping @Sendable () -> Void) {
        state.withLock { $0.onExpired = body }
    }

    /// Sets the lease under which sessions begin from now on.
    func changed(to number: LeaseNumber) {
        let body = state.withLock { state -> (@Sendable () -> Void)? in
            guard state.current != number else { return nil }
            state.current = number
            return state.onExpired
        }
        body?()
    }
}

/// The ordinal number of a gateway's lease. Other gateways have executed, or will execute, the onDisconnect operations
/// that were saved under a lease earlier than the current one.
public struct LeaseNumber: Sendable, Equatable {
    let value: Int

    init(_ value: Int) { self.value = value }

    static let first = LeaseNumber(1)

    var next: LeaseNumber { LeaseNumber(value + 1) }
}
