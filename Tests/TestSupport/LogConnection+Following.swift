public import LogStore

extension LogConnection {
    /// Makes a namespace follow an upstream, and returns its id. The namespace may have data.
    public func startFollowing(
        _ name: String, keepRules: Bool = false, maxBytesPerDay: Int64? = nil
    ) throws -> Int64 {
        let addition = try addFollow(
            namespace: name, upstream: "https://example.firebaseio.com",
            credentials: #"{"kind": "service-account", "file": "account.json"}"#, keepRules: keepRules,
            maxBytesPerDay: maxBytesPerDay, replaces: true)
        guard case .added(let id) = addition else { throw NotAdded() }
        return id
    }

    private struct NotAdded: Error {}
}

extension Batch {
    /// Returns the same batch with upstream messages.
    public func following(_ fence: [UInt8], after: Int64, upto: Int64) -> Batch {
        with(FollowPass(FollowPass.Messages(fence: fence, after: after, upto: upto)))
    }

    /// Returns the same batch with another right.
    public func with(_ follow: FollowPass?) -> Batch {
        Batch(
            namespace: namespace, expectedHead: expectedHead, expectedBatch: expectedBatch, id: id, records: records,
            rows: rows, rules: rules, claims: claims, names: names, writers: writers, follow: follow)
    }
}
