/// Finds the leases that have expired: those of gateways that give no sign of life. Pure.
///
/// Clocks of different machines are not compared: a lease has expired whose gateway has not counted its beats up for so long
/// by the watcher's own monotonic clock, over looks between which there was no long gap. A watcher that could not look, or
/// was stopped between two looks, begins anew: the others may have stood still as well.
public struct BeatWatch: Sendable {
    private let leaseExpiryMilliseconds: Int64
    private let longestGapMilliseconds: Int64
    /// When each beat was first seen.
    private var seen: [GatewayBeat: Int64] = [:]
    private var lastLook: Int64?

    /// - Parameters:
    ///   - leaseExpiryMilliseconds: for how long a beat must have stood still.
    ///   - beatMilliseconds: how often gateways beat.
    public init(leaseExpiryMilliseconds: Int64, beatMilliseconds: Int64) {
        self.leaseExpiryMilliseconds = leaseExpiryMilliseconds
        longestGapMilliseconds = max(2 * beatMilliseconds, leaseExpiryMilliseconds / 2)
    }

    /// Takes a look at the other gateways, and tells whose leases have expired.
    ///
    /// - Parameters:
    ///   - asked: monotonic milliseconds before the database was asked.
    ///   - answered: the same when it had answered.
    public mutating func look(_ beats: [GatewayBeat], asked: Int64, answered: Int64) -> [GatewayBeat] {
        if let lastLook, asked - lastLook > longestGapMilliseconds { forget() }
        lastLook = answered
        var now: [GatewayBeat: Int64] = [:]
        for beat in beats { now[beat] = seen[beat] ?? answered }
        seen = now
        return beats.filter { beat in now[beat].map { asked - $0 >= leaseExpiryMilliseconds } ?? false }
    }

    /// A look has failed.
    public mutating func forget() {
        seen.removeAll()
        lastLook = nil
    }
}
