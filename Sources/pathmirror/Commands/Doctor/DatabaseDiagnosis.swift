import LogStore
import Runtime

/// Judges the contents of the database: rights, sizes, long transactions. Pure.
enum DatabaseDiagnosis {
    /// No transaction of an application needs to stay open for longer than this.
    static let longTransactionSeconds: Int64 = 300

    static func rights(_ facts: RightsFacts, _ user: String) -> [Finding] {
        guard facts.hasSchema else { return [] }
        var found: [Finding] = []
        if !facts.ownsSchema, !facts.isGateway {
            found.append(
                .problem(
                    "rights.role", "\(user) neither owns schema pathmirror nor is a member of pathmirror_gateway",
                    fix: facts.hasGatewayRole
                        ? "grant pathmirror_gateway to \(user)"
                        : "create the roles as in docs/guides/roles.md, and run 'pathmirror migrate up'"))
        } else if !facts.missing.isEmpty {
            found.append(
                .problem(
                    "rights.missing", "\(user) lacks \(list(facts.missing))",
                    fix: "grant it, or run 'pathmirror migrate up' as the owner"))
        } else {
            found.append(
                .ok("rights.role", facts.ownsSchema ? "\(user) owns the schema" : "\(user) has the gateways' role"))
        }
        if let grant = facts.schemaGrant {
            found.append(
                .note(
                    "rights.create",
                    "\(user) lacks the privilege CREATE on the database, which a mirror needs if its table is in a schema that does not exist yet",
                    fix: "as a superuser or the owner of the database: \(grant)"))
        }
        if !facts.unknownToGateways.isEmpty {
            found.append(
                .warning(
                    "rights.gateways", "the role pathmirror_gateway can't read \(list(facts.unknownToGateways))",
                    fix: "the role was created after the schema: grant its rights as described in docs/reference/sql.md"
                ))
        }
        if !facts.publicRights.isEmpty {
            found.append(
                .warning(
                    "rights.public", "every user of the database has rights on \(list(facts.publicRights))",
                    fix: "revoke them from public"))
        }
        return found
    }

    static func activity(_ facts: ActivityFacts) -> [Finding] {
        var found = facts.transactions.map { open in
            Finding.warning(
                "activity.transaction",
                "a transaction of \(open.user) (\(open.application), process \(open.pid), \(open.state)) has been open for \(duration(open.seconds)): vacuum can't remove rows that were deleted since",
                fix: "end it: select pg_terminate_backend(\(open.pid))")
        }
        if facts.prepared > 0 {
            found.append(
                facts.oldestPreparedSeconds > longTransactionSeconds
                    ? .problem(
                        "activity.prepared",
                        "\(facts.prepared) prepared transactions are pending, the oldest for \(duration(facts.oldestPreparedSeconds)): they keep their locks",
                        fix: "run commit prepared or rollback prepared for those in pg_prepared_xacts")
                    : .note("activity.prepared", "\(facts.prepared) prepared transactions are pending"))
        }
        return found.isEmpty
            ? [
                .ok(
                    "activity.transaction",
                    "no transaction has been open for longer than \(duration(longTransactionSeconds))")
            ]
            : found
    }

    /// - Parameter freeBytes: the free bytes of the server's data directory; nil if unknown.
    static func storage(_ facts: StorageFacts, freeBytes: Int64?) -> [Finding] {
        var found: [Finding] = []
        let size =
            "log: \(Counted.text(facts.entries, "entry")); database size \(ByteCount.text(facts.databaseBytes))"
            + (facts.walBytes.map { ", write-ahead log \(ByteCount.text($0))" } ?? "")
        if let freeBytes {
            let text = "\(size), and \(ByteCount.text(freeBytes)) are free"
            let fix =
                "make room as in docs/guides/disk-full.md: 'pathmirror log prune' itself needs free space for a snapshot of the tree"
            if freeBytes < 1 << 30 {
                found.append(.problem("disk.free", text, fix: fix))
            } else if freeBytes < facts.databaseBytes / 5 {
                found.append(.warning("disk.free", text, fix: fix))
            } else {
                found.append(.ok("disk.free", text))
            }
        } else {
            found.append(
                .note("disk.free", "\(size); free disk space is unknown from here", fix: "check df on the server"))
        }
        if facts.transactionAge > 1_000_000_000 {
            found.append(
                .problem(
                    "storage.age",
                    "the oldest rows are \(facts.transactionAge / 1_000_000) million transactions old; at 2,000 million PostgreSQL stops accepting writes",
                    fix:
                        "remove the reason that autovacuum can't freeze them (long transactions, slots), then run: vacuum (freeze)"
                ))
        }
        for table in facts.bloated {
            found.append(
                .warning(
                    "storage.bloat",
                    "\(table.name) has \(Counted.text(table.deadRows, "dead row")) and \(table.liveRows) live ones",
                    fix:
                        "remove the reason that vacuum can't remove them (long transactions, slots), then run: vacuum pathmirror.\(table.name)"
                ))
        }
        return found
    }

    static func duration(_ seconds: Int64) -> String {
        switch seconds {
        case ..<120: "\(seconds) s"
        case ..<7_200: "\(seconds / 60) min"
        case ..<172_800: "\(seconds / 3_600) h"
        default: "\(seconds / 86_400) days"
        }
    }

    /// The first few items of a long list.
    static func list(_ items: [String]) -> String {
        items.prefix(5).joined(separator: ", ") + (items.count > 5 ? " and \(items.count - 5) more" : "")
    }
}
