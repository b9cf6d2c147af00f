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
                    "\(user) lacks the privilege CREATE on the database, which a mirror takes whose table has a schema that is not there",
                    fix: "as a superuser or the owner of the database: \(grant)"))
        }
        if !facts.unknownToGateways.isEmpty {
            found.append(
                .warning(
                    "rights.gateways", "the role pathmirror_gateway may not read \(list(facts.unknownToGateways))",
                    fix: "the role was made after the schema: grant as docs/reference/sql.md says"))
        }
        if !facts.givenToEverybody.isEmpty {
            found.append(
                .warning(
                    "rights.public", "everybody who may connect has been given \(list(facts.givenToEverybody))",
                    fix: "revoke it from public"))
        }
        return found
    }

    static func activity(_ facts: ActivityFacts) -> [Finding] {
        var found = facts.transactions.map { open in
            Finding.warning(
                "activity.transaction",
                "a transaction of \(open.user) (\(open.application), process \(open.pid), \(open.state)) has been open for \(duration(open.seconds)): nothing behind it is cleaned up",
                fix: "end it: select pg_terminate_backend(\(open.pid))")
        }
        if facts.prepared > 0 {
            found.append(
                facts.oldestPreparedSeconds > longTransactionSeconds
                    ? .problem(
                        "activity.prepared",
                        "\(facts.prepared) prepared transactions wait, the oldest for \(duration(facts.oldestPreparedSeconds)): they keep their locks",
                        fix: "commit prepared or rollback prepared those in pg_prepared_xacts")
                    : .note("activity.prepared", "\(facts.prepared) prepared transactions are under way"))
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
            "\(Counted.text(facts.entries, "entry")); the database has \(ByteCount.text(facts.databaseBytes))"
            + (facts.walBytes.map { ", the write-ahead log \(ByteCount.text($0))" } ?? "")
        if let freeBytes {
            let text = "\(size), and \(ByteCount.text(freeBytes)) are free"
            let fix = "make room as in docs/guides/disk-full.md: 'pathmirror log prune' itself needs free space for a snapshot of the tree"
            if freeBytes < 1 << 30 {
                found.append(.problem("disk.free", text, fix: fix))
            } else if freeBytes < facts.databaseBytes / 5 {
                found.append(.warning("disk.free", text, fix: fix))
            } else {
                found.append(.ok("disk.free", text))
            }
        } else {
            found.append(
                .note("disk.free", "\(size); what is free can't be seen from here", fix: "look on the server: df"))
        }
        if facts.transactionAge > 1_000_000_000 {
            found.append(
                .problem(
                    "storage.age",
                    "the oldest rows are \(facts.transactionAge / 1_000_000) million transactions old; at 2,000 PostgreSQL stops taking writes",
                    fix: "find what keeps autovacuum from freezing (long transactions, slots), then: vacuum (freeze)"))
        }
        for table in facts.bloated {
            found.append(
                .warning(
                    "storage.bloat",
                    "\(table.name) has \(Counted.text(table.deadRows, "dead row")) and \(table.liveRows) living",
                    fix:
                        "find what keeps vacuum from removing them (long transactions, slots), then: vacuum pathmirror.\(table.name)"
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
