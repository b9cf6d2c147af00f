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

    /// Claims a namespace, and waits for a batch in progress. Returns false if its fence is not the observed one.
    public func claimsFollow(
        _ id: Int64, observed: [UInt8]?, fence: [UInt8], gateway: String
    ) throws -> Bool {
        var claim = FollowClaim.isLocked
        _ = try eventually {
            guard let record = try follows().first(where: { $0.namespaceID == id }), record.fence == observed else {
                claim = .isOthers
                return true
            }
            claim = try claimFollow(record, fence: fence, gateway: gateway)
            return claim != .isLocked
        }
        return claim == .claimed
    }

    /// Returns the position under a fence after the batch in progress; nil if the fence is not the namespace's.
    public func followedPosition(_ id: Int64, fence: [UInt8]) throws -> Int64? {
        var position = FollowPositionLookup.isLocked
        _ = try eventually {
            position = try followPosition(id, fence: fence)
            return position != .isLocked
        }
        if case .committed(let number) = position { return number }
        return nil
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
