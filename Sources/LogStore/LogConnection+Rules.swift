import Postgres
public import Tree

/// Security rules as uploaded, and the entry from which on they apply.
public struct StoredRules: Sendable, Equatable {
    public let seq: Int64
    /// The text as it was uploaded. Empty if the entry removed the namespace's rules: no upload is empty, as an empty text has no rules.
    public let source: [UInt8]

    /// Whether the entry removed the namespace's rules.
    public var isCleared: Bool { source.isEmpty }

    public init(seq: Int64, source: [UInt8]) {
        self.seq = seq
        self.source = source
    }
}

extension LogConnection {
    /// The rules that hold at the head, or nil if none were ever uploaded or the newest were removed.
    public func currentRules(_ namespace: Int64) throws(LogStoreError) -> StoredRules? {
        guard let newest = try rules(namespace, "order by seq desc limit 1", []).first, !newest.isCleared else {
            return nil
        }
        return newest
    }

    /// Returns a namespace's head and the rules at the head, in one consistent read. Returns nil if there is no
    /// namespace with this id and name.
    public func rulesAtHead(
        _ namespace: Int64, named name: String
    ) throws(LogStoreError) -> (head: Int64, rules: StoredRules?)? {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                select known.head, newest.seq, newest.source from pathmirror.namespace as known
                left join lateral (
                    select seq, source from pathmirror.rule where namespace_id = known.id order by seq desc limit 1
                ) as newest on true
                where known.id = $1 and known.name = $2
                """, [.int8(namespace), .text(name)])
            guard rows.rowCount == 1 else { return nil }
            let head = try rows.int64(0, 0)
            guard !rows.isNull(0, 1) else { return (head, nil) }
            let newest = StoredRules(seq: try rows.int64(0, 1), source: try rows.bytes(0, 2))
            return (head, newest.isCleared ? nil : newest)
        }
    }

    /// The rules that an entry brought, or the note that it removed them.
    public func rules(_ namespace: Int64, at seq: Int64) throws(LogStoreError) -> StoredRules? {
        try rules(namespace, "and seq = $2", [.int8(seq)]).first
    }

    /// Returns all rules that the namespace has had, oldest first.
    public func rulesHistory(_ namespace: Int64) throws(LogStoreError) -> [StoredRules] {
        try rules(namespace, "order by seq", [])
    }

    /// Stores rules for the namespace, in an entry of their own after other writes in progress. The source is not checked
    /// here: the caller must check it before. An empty source removes the namespace's rules. Announces the entry, so that
    /// running gateways apply the rules at once.
    ///
    /// - Returns: the seq of the entry.
    /// - Throws: `followsUpstream` if the namespace has the rules of an upstream. If the connection is lost, it is unknown
    ///   whether the rules were stored. `currentRules` then shows the outcome.
    public func setRules(
        _ namespace: Int64, source: [UInt8], origin: Origin
    ) throws(LogStoreError) -> Int64 {
        guard let record = try self.namespace(id: namespace) else { throw .unknownNamespace("\(namespace)") }
        let head = try lockHead(namespace, expectedHead: record.head)
        let entry = Batch.Record(operation: .rules, path: .root, changes: ChangeCodec.encode([]), origin: origin)
        let batch = Batch(
            namespace: namespace, expectedHead: head, id: Batch.makeID(), records: [entry], rows: RowChanges(),
            rules: [StoredRules(seq: head + 1, source: source)],
            follow: FollowPass(nil, hasOwnRules: record.following != .nothing))
        switch try commit(batch, isLocked: true) {
        case .committed: break
        case .following: throw .followsUpstream
        default: throw .corrupt("the head changed while its row was locked")
        }
        // The rules are stored. Gateways also compare the heads periodically, so that a lost announcement only delays them.
        do { try announce([namespace: head + 1]) } catch {}
        return head + 1
    }

    private func rules(
        _ namespace: Int64, _ condition: String, _ more: [PostgresValue]
    ) throws(LogStoreError) -> [StoredRules] {
        try translated { () throws(PostgresError) in
            var parameters: PostgresParameters = [.int8(namespace)]
            for value in more { parameters.append(value) }
            let rows = try postgres.execute(
                "select seq, source from pathmirror.rule where namespace_id = $1 \(condition)", parameters)
            var found: [StoredRules] = []
            for row in 0..<rows.rowCount {
                found.append(StoredRules(seq: try rows.int64(row, 0), source: try rows.bytes(row, 1)))
            }
            return found
        }
    }
}
