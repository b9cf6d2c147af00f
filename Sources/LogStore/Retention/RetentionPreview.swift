import Postgres

/// The entries of one namespace's log that a policy does not keep.
public struct RetentionPreview: Sendable, Equatable {
    public let namespace: String
    /// The oldest entry in the log.
    public let oldFrom: Int64
    /// The oldest entry that the policy keeps, or nil if the policy goes by age and PostgreSQL's clock is wrong.
    public let wantedFrom: Int64?
    public let head: Int64
    /// The size of the log's partitions that go whole, in bytes.
    public let bytes: Int64
    /// A reader that still needs some of the entries, such as `mirror orders`, or nil.
    public let waitsFor: String?

    /// The number of entries that the policy does not keep, or nil if unknown.
    public var entries: Int64? { wantedFrom.map { $0 - oldFrom } }
}

extension Pruning {
    /// Returns the entries that a policy does not keep. Changes nothing.
    ///
    /// - Parameter current: the policy in force, or nil if there is none.
    /// - Returns: nil if the policy keeps all entries that `current` keeps, or if the namespace is gone.
    public func preview(_ policy: RetentionPolicy, after current: RetentionPolicy?) throws -> RetentionPreview? {
        guard let record = try connection.namespace(id: namespace) else { return nil }
        let wanted: Int64
        do {
            wanted = try wantedFrom(policy)
            let kept = try current.map { try wantedFrom($0) } ?? record.retainedFrom
            guard wanted > max(kept, record.retainedFrom) else { return nil }
        } catch ReplayError.clocksDiffer, ReplayError.clockBehindLog {
            return RetentionPreview(
                namespace: record.name, oldFrom: record.retainedFrom, wantedFrom: nil, head: record.head, bytes: 0,
                waitsFor: nil)
        }
        let plan = try plan(.from(wanted), force: false, leavesPartitions: true)
        return RetentionPreview(
            namespace: record.name, oldFrom: plan.oldFrom, wantedFrom: plan.wantedFrom, head: plan.head,
            bytes: try bytes(of: plan), waitsFor: plan.holders.first.map { "\($0.kind) \($0.name)" })
    }
}
