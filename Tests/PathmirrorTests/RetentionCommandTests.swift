import TestSupport
import Testing

@testable import pathmirror

/// Checks that a policy that drops entries is set only after they were shown and confirmed.
@Suite struct RetentionCommandTests {
    private static let refusal =
        "pathmirror: Nothing was changed. Add --yes to set this policy without being asked: it drops 5 entries of 1 namespace.\n"
    private static let shown = [
        "The policy keeps the last 3 entries, and drops:", "default  5 of 8 entries  seq 1 to 5",
    ]

    private static func policy(_ database: CommandDatabase) throws -> String? {
        try database.value("select string_agg(keep_entries::text, ' ' order by namespace_id) from pathmirror.retention")
    }

    @Test func shownAndRefusedWithoutATerminal() throws {
        try withHistory { database throws in
            let run = try database.run(["retention", "set", "--ns", "default", "--keep", "3 entries"], input: "y\n")
            #expect(run.exitCode == 1)
            #expect(run.lines == Self.shown)
            #expect(run.errors == Self.refusal)
            let json = try database.run(["retention", "set", "--ns", "default", "--keep", "3 entries", "--json"])
            #expect(json.exitCode == 1 && json.output.isEmpty && json.errors == Self.refusal)
            #expect(try Self.policy(database) == nil)
        }
    }

    @Test(arguments: [("y", true), ("n", false)]) func askedOnATerminal(_ answer: String, _ isSet: Bool) throws {
        try withHistory { database throws in
            let run = try database.run(
                ["retention", "set", "--ns", "default", "--keep", "3 entries"], answering: answer)
            #expect(run.exitCode == (isSet ? 0 : 1))
            #expect(
                run.errors.contains(
                    "Set this policy? Gateways then drop these entries, and they cannot be restored. [y/N] "))
            #expect(Array(run.lines.prefix(2)) == Self.shown)
            #expect(try Self.policy(database) == (isSet ? "3" : nil))
        }
    }

    @Test func setAndReversed() throws {
        try withHistory { database throws in
            let set = ["retention", "set", "--ns", "default", "--keep"]
            #expect(
                try database.run(set + ["3 entries", "--yes"]).lines == Self.shown + [
                    "The log of default keeps the last 3 entries.",
                    "Entries that are dropped meanwhile cannot be restored. To reverse it: pathmirror retention rm --ns default",
                ])
            // Keeps more than the present policy, so there is no question.
            #expect(
                try database.run(set + ["5 entries"]).lines == [
                    "The log of default keeps the last 5 entries.",
                    "Entries that are dropped meanwhile cannot be restored. To reverse it: pathmirror retention set --ns default --keep '3 entries'",
                ])
            #expect(try database.run(set + ["5 entries"]).lines == ["The log of default keeps the last 5 entries."])
            #expect(try database.run(set + ["4 entries"]).exitCode == 1)
            #expect(
                try database.run(["retention", "rm", "--ns", "default"]).lines == [
                    "The log of default keeps everything.",
                    "To reverse it: pathmirror retention set --ns default --keep '5 entries'",
                ])
            #expect(
                try database.failure("retention", "rm", "--ns", "default").contains(
                    "No retention policy is set for the log of default."))
        }
    }

    @Test func forAllNamespacesWithoutAPolicyOfTheirOwn() throws {
        try withHistory { database throws in
            try database.makeNamespace("other")
            try database.makeNamespace("empty")
            for number in 1...3 { try database.set("/x", "\(number)", "other") }
            try database.output("retention", "set", "--ns", "default", "--keep", "9 entries", "--snapshot-every", "1d")
            let run = try database.run(["retention", "set", "--all", "--keep", "1 entry"])
            #expect(run.exitCode == 1)
            #expect(
                run.lines == ["The policy keeps the last entry, and drops:", "other  2 of 3 entries  seq 1 to 2"])
            try database.output("retention", "set", "--all", "--keep", "1 entry", "--yes")
            #expect(
                try database.run(["retention", "rm", "--ns", "default"]).lines == [
                    "The log of default keeps the last entry, by the default policy.",
                    "To reverse it: pathmirror retention set --ns default --keep '9 entries' --snapshot-every 1d",
                ])
        }
    }

    @Test func asJSON() throws {
        try withHistory { database throws in
            try database.execute(
                "insert into pathmirror.cursor (namespace_id, kind, name, seq) select id, 'reader', 'reports', 2 from pathmirror.namespace"
            )
            let set = try database.json("retention", "set", "--ns", "default", "--keep", "3 entries", "--yes")
            #expect(
                set == [
                    [
                        "namespace": "default", "policy": "--keep '3 entries'",
                        "drops": [
                            [
                                "namespace": "default", "entries": 5, "from": 1, "to": 5, "bytes": 0,
                                "waitsFor": "reader reports",
                            ]
                        ],
                    ]
                ])
            let again = try database.json("retention", "set", "--ns", "default", "--keep", "3 entries")
            #expect(again.first?["drops"] == [])
        }
    }

    @Test func byAge() throws {
        try withHistory { database throws in
            try database.execute("update pathmirror.log set committed_at = now() - (9 - seq) * interval '1 day'")
            let lines = try database.run(["retention", "set", "--all", "--keep", "36h"]).lines
            #expect(
                lines == [
                    "The policy keeps the entries of the last 36 hours, and drops:",
                    "default  7 of 8 entries  seq 1 to 7",
                ])
            #expect(
                try database.run(["retention", "set", "--all", "--keep", "30d", "--max-size", "50GB"]).lines.first
                    == "Every log without a policy of its own keeps the entries of the last 30 days, but at most 50GB of partitions."
            )
        }
    }

    @Test func withAClockThatIsWrong() throws {
        try withHistory { database throws in
            try database.execute("update pathmirror.log set committed_at = now() + interval '1 hour' where seq = 8")
            let run = try database.run(["retention", "set", "--all", "--keep", "1d"])
            #expect(run.exitCode == 1)
            #expect(
                run.lines.last
                    == "default  unknown  PostgreSQL's clock is wrong, and the policy uses ages: see 'pathmirror doctor'"
            )
            #expect(run.errors.contains("it drops an unknown number of entries of 1 namespace."))
            #expect(try database.run(["retention", "set", "--all", "--keep", "1d", "--yes"]).exitCode == 0)
        }
    }
}
