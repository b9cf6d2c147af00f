import LogStore

/// Decides what a gateway does for its lease: when it begins one, takes it over to a new connection, renews it or gives it up.
///
/// PostgreSQL takes a save of onDisconnect operations only under a lease that has not expired, and only by its newest
/// connection. So a lease whose row is gone is never begun again under its id, and after each new connection the lease is
/// taken over before anything else is sent.
///
/// A state machine without I/O. `next` says what to do; exactly one of the other functions is called with the result, and
/// `next` again, until it says `.ready`. Where a step fails, the connection is given up or `next` says it again.
struct LeaseMachine {
    /// What is to be done by the connection.
    enum Step: Equatable {
        /// The database has another history: give the lease up, if there is one, and then call `gaveUp`.
        case giveUp(GatewayLease?)
        /// Continue the lease by this connection, and then call `tookOver`.
        case takeOver(GatewayLease)
        /// Begin a lease under a new id, and then call `began`.
        case begin
        /// The connection is the lease's newest from now on: find out what became of a save whose answer was lost, and then
        /// call `settled`.
        case settle(GatewayLease)
        /// Renew the lease, and then call `renewed`.
        case renew(GatewayLease)
        /// The connection has the lease. What needs it may be done.
        case ready(GatewayLease)
    }

    /// What decides about the next step besides what has happened to the lease.
    struct Circumstances: Equatable {
        /// Monotonic milliseconds.
        var now: Int64
        /// Whether the database answered when it was last asked, by whatever connection.
        var isDatabaseUp = true
        /// Changes when the database was found to have another history than the gateway had followed.
        var history = 0
        /// Whether namespaces are still being compared with the database. All that is found to be lost together ends one
        /// lease.
        var isComparing = false
    }

    private enum Hold: Equatable {
        /// This connection has not taken the lease over, if there is one.
        case none
        /// It has; an unanswered save is not settled yet.
        case unsettled
        case settled
    }

    /// The lease under which sessions begin now. Changes when a lease is lost.
    private(set) var number = LeaseNumber.first
    /// When the lease is to be renewed, in monotonic milliseconds.
    private(set) var nextRenewal: Int64 = 0
    private var lease: GatewayLease?
    private var hold = Hold.none
    /// The history that the lease belongs to.
    private var history = 0
    /// Whether the lease was renewed since `start`.
    private var isAsked = false
    private let renewalMilliseconds: Int64

    init(renewalMilliseconds: Int64) { self.renewalMilliseconds = renewalMilliseconds }

    /// The lease's row that is to be removed when the gateway stops.
    var held: GatewayLease? { lease }

    /// Something is to be done under the lease.
    mutating func start() { isAsked = false }

    func next(_ circumstances: Circumstances) -> Step {
        if circumstances.history != history, !circumstances.isComparing { return .giveUp(lease) }
        guard let lease else { return .begin }
        switch hold {
        case .none: return .takeOver(lease)
        case .unsettled: return .settle(lease)
        case .settled: break
        }
        // A database that may be away is asked before something is sent whose outcome would then be unknown.
        if !isAsked, circumstances.now >= nextRenewal || !circumstances.isDatabaseUp { return .renew(lease) }
        return .ready(lease)
    }

    /// The lease was given up, as the database has this other history. Saves may be lost in it, and rows may be back of
    /// sessions that are over: clients must say anew what they want.
    mutating func gaveUp(for history: Int) {
        if lease != nil { lost() }
        hold = .none
        self.history = history
    }

    /// - Parameter lease: the lease as it is now; nil where it has expired.
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

    /// - Parameter beat: the number of this sign of life; nil where the lease has expired.
    mutating func renewed(_ beat: Int64?, now: Int64) {
        isAsked = true
        guard let beat else { return lost() }
        lease?.beat = beat
        nextRenewal = now + renewalMilliseconds
    }

    /// PostgreSQL has refused something as the lease has expired.
    mutating func lost() {
        lease = nil
        hold = .none
        number = number.next
    }

    /// The connection is gone. The next one takes the lease over.
    mutating func connectionLost() { hold = .none }
}
