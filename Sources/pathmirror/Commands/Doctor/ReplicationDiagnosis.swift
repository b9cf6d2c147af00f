import LogStore
import Runtime

/// Judges the standbys and slots of a PostgreSQL server. Pure.
enum ReplicationDiagnosis {
    static func findings(_ facts: ReplicationFacts, _ server: ServerFacts) -> [Finding] {
        standbys(facts, server) + slots(facts) + archive(facts, server)
    }

    private static func standbys(_ facts: ReplicationFacts, _ server: ServerFacts) -> [Finding] {
        let wanted = server.settings["synchronous_standby_names"] ?? ""
        let synchronous = facts.standbys.filter { ["sync", "quorum"].contains($0.mode) && $0.state == "streaming" }
        var found: [Finding] = []
        if !wanted.isEmpty, synchronous.isEmpty, !server.isStandby {
            found.append(
                .problem(
                    "replication.synchronous",
                    "commits wait for a synchronous standby (\(wanted)), and none is connected",
                    fix:
                        "start a standby, or see docs/runbook.md#pathmirrorcommitsunanswered"
                ))
        } else if !synchronous.isEmpty {
            let names = synchronous.map(\.name).joined(separator: ", ")
            found.append(.ok("replication.synchronous", "acknowledged writes are also on \(names)"))
        } else if !facts.standbys.isEmpty {
            found.append(
                .warning(
                    "replication.asynchronous",
                    "standbys that follow behind: \(facts.standbys.count); a failover loses the newest acknowledged writes",
                    fix: "name them in synchronous_standby_names (docs/guides/high-availability.md)"))
        } else if !server.isStandby {
            found.append(
                .note(
                    "replication.none",
                    "no standby: losing this disk loses everything since the last backup"))
        }
        for standby in facts.standbys where (standby.lagBytes ?? 0) > 1 << 30 {
            found.append(
                .warning(
                    "replication.lag", "standby \(standby.name) is \(ByteCount.text(standby.lagBytes ?? 0)) behind",
                    fix: "check its disk and network"))
        }
        return found
    }

    private static func slots(_ facts: ReplicationFacts) -> [Finding] {
        facts.slots.compactMap { slot in
            if ["lost", "unreserved"].contains(slot.status) {
                return .problem(
                    "replication.slot", "replication slot \(slot.name) is \(slot.status): its standby can't resume",
                    fix: "rebuild the standby, or drop the slot")
            }
            guard !slot.isActive, slot.keptBytes > 1 << 30 else { return nil }
            return .warning(
                "replication.slot",
                "replication slot \(slot.name) is unused, and keeps \(ByteCount.text(slot.keptBytes)) of the write-ahead log",
                fix: "start who used it, or: select pg_drop_replication_slot('\(slot.name)')")
        }
    }

    private static func archive(_ facts: ReplicationFacts, _ server: ServerFacts) -> [Finding] {
        guard let mode = server.settings["archive_mode"], mode != "off", facts.archivingFails else { return [] }
        return [
            .problem(
                "replication.archive",
                "the newest piece of the write-ahead log could not be archived: the disk fills up",
                fix:
                    "read the errors of archive_command in the server's log, and see docs/guides/disk-full.md#the-write-ahead-log"
            )
        ]
    }
}
