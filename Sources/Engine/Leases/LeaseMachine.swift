import LogStore

/// Decides when a gateway begins its lease, takes it over to a new connection, renews it or gives it up.
///
/// PostgreSQL accepts a save of onDisconnect operations only under a lease that has not expired, and only from the
/// lease's newest connection. So a lease whose row was removed is never begun again under its id, and after each new
/// connection the lease is taken over before anything else is sent.
///
/// A state machine without I/O. `next` returns a step; the caller reports its result by exactly one of the other
/// functions and calls `next` again until it returns `.ready`. If a step fails, the caller closes the connection or
/// `next` returns the step again.
struct LeaseMachine {
    /// The next step for the connection.
    enum Step: Equatable {
        /// The database has another history: give up the lease, if there is one, and then call `gaveUp`.
        case giveUp(GatewayLease?)
        /// Continue the lease over this connection, and then call `tookOver`.
        case takeOver(GatewayLease)
        /// Begin a lease under a new id, and then call `began`.
        case begin
        /// This connection is now the newest of the lease: determine the outcome of a save whose answer was lost, and
        /// then call `settled`.
        case settle(GatewayLease)
        /// Renew the lease, and then call `renewed`.
        case renew(GatewayLease)
        /// The connection owns the lease, and jobs may be executed.
        case ready(GatewayLease)
    }

    /// The conditions that decide about the next step besides the state of the lease.
    struct Circumstances: Equatable {
        /// Monotonic milliseconds.
        var now: Int64
        /// Whether the database answered the last query of any connection.
        var isDatabaseUp = true
        /// Changes when the gateway finds that the database has another history than the one it followed.
        var history = 0
        /// Whether namespaces are still being compared with the database. All losses found by one comparison end one
        /// lease only.
        var isComparing = false
    }

    private enum Hold: Equatable {
        /// This connection has not taken over the lease, if there is one.
        case none
        /// This connection owns the lease; an unanswered save is not settled yet.
        case unsettled
        case settled
    }

    /// The lease under which sessions begin now. Changes when a lease is lost.
    private(set) var number = LeaseNumber.first
    /// The time of the next renewal, in monotonic milliseconds.
    private(set) var nextRenewal: Int64 = 0
    private var lease: GatewayLease?
    private var hold = Hold.none
    /// The history that the lease belongs to.
    private var history = 0
    /// Whether the lease was renewed since `start`.
    private var isAsked = false
    private let renewalMilliseconds: Int64

    init(renewalMilliseconds: Int64) { self.renewalMilliseconds = renewalMilliseconds }

    /// The lease whose row is removed when the gateway stops.
    var held: GatewayLease? { lease }

    /// Begins a job under the lease.
    mutating func start() { isAsked = false }

    func next(_ circumstances: Circumstances) -> Step {
        if circumstances.history != history, !circumstances.isComparing { return .giveUp(lease) }
        guard let lease else { return .begin }
        switch hold {
        case .none: return .takeOver(lease)
        case .unsettled: return .settle(lease)
        case .settled: break
        }
        // A database that may be away is tested before a job is sent whose outcome would then be unknown.
        if !isAsked, circumstances.now >= nextRenewal || !circumstances.isDatabaseUp { return .renew(lease) }
        return .ready(lease)
    }

    /// Records that the lease was given up because the database has another history. That history may lack saves, and
    /// may contain rows of sessions that are over: clients must register their operations again.
    mutating func gaveUp(for history: Int) {
        if lease != nil { lost() }
        hold = .none
        self.history = history
    }

    /// - Parameter lease: the lease after the takeover; nil if it has expired.
    mutating func tookOver(_ lease: GatewayLease?) {
        guard let lease else { return lost() }
        self.lease = lease
        hold = .unsettled
    }

    mutating func began(_ lease: GatewayLease) {
        self.lease = lease
        hold = .unsettled
    }

    mutating func settled() {
        hold = .settled
        nextRenewal = 0
    }

    /// - Parameter heartbeat: the number of this heartbeat; nil if the lease has expired.
    mutating func renewed(_ heartbeat: Int64?, now: Int64) {
        isAsked = true
        guard let heartbeat else { return lost() }
        lease?.heartbeat = heartbeat
        nextRenewal = now + renewalMilliseconds
    }

    /// Records that PostgreSQL rejected a statement because the lease has expired.
    mutating func lost() {
        lease = nil
        hold = .none
        number = number.next
    }

    /// Records that the connection was lost. The next connection takes the lease over.
    mutating func connectionLost() { hold = .none }
}
