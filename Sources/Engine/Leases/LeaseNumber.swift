/// Which of a gateway's leases: they are counted. Other gateways have executed the onDisconnect operations that were saved
/// under an earlier lease than the present one, or will.
public struct LeaseNumber: Sendable, Equatable {
    let value: Int

    init(_ value: Int) { self.value = value }

    static let first = LeaseNumber(1)

    var next: LeaseNumber { LeaseNumber(value + 1) }
}
