import LogStore
import Postgres
import TestSupport
import Testing
import Tree

/// Checks that `Verification` finds every kind of damage, and reports where it is.
@Suite struct VerificationTests {
    @Test func healthyNamespaceIsClean() throws {
        try withDamage("select 1") { verification in
            #expect(verification.isClean)
            #expect(verification.entryCount == 20)
            #expect(verification.head == 20)
        }
    }

    @Test func changedValue() throws {
        try withDamage("update pathmirror.node set value = '77' where path = '/k7'") { verification in
            #expect(verification.differences.map(\.path) == ["/k7"])
            #expect(verification.differences.first?.logged == .int(7))
            #expect(verification.differences.first?.stored == .int(77))
        }
    }

    @Test func missingRow() throws {
        try withDamage("delete from pathmirror.node where path = '/k7'") { verification in
            #expect(verification.differences.map(\.path) == ["/k7"])
            #expect(verification.differences.first?.stored == .null)
        }
    }

    @Test func extraRow() throws {
        try withDamage(
            "insert into pathmirror.node (namespace_id, path, value, version) select id, '/more', '1', 1 from pathmirror.namespace"
        ) { verification in
            #expect(verification.differences.map(\.path) == ["/more"])
            #expect(verification.differences.first?.logged == .null)
        }
    }

    /// Checks that a row below a leaf is reported as damage although readers of the tree do not see it.
    @Test func rowBelowALeaf() throws {
        try withDamage(
            """
            insert into pathmirror.node (namespace_id, path, value, version)
            select id, '/k7/.priority/x', '1', 1 from pathmirror.namespace
            """
        ) { verification in
            #expect(!verification.isClean)
        }
    }

    @Test func missingEntry() throws {
        try withDamage("delete from pathmirror.log where seq = 5") { verification in
            #expect(verification.problems.contains { $0.contains("5") })
            #expect(verification.differences.map(\.path).contains("/k4"))
        }
    }

    @Test func missingLastEntry() throws {
        try withDamage("delete from pathmirror.log where seq = 20") { verification in
            #expect(verification.problems.contains { $0.contains("20") && $0.contains("19") })
        }
    }

    @Test func changedEntry() throws {
        try withDamage("update pathmirror.log set changes = '{\"/k4\":-4}' where seq = 5") { verification in
            #expect(verification.differences.map(\.path) == ["/k4"])
        }
    }

    @Test(arguments: [19, 21])
    func wrongHead(head: Int) throws {
        try withDamage("update pathmirror.namespace set head = \(head)") { verification in
            #expect(verification.problems.contains { $0.contains("\(head)") })
        }
    }

    private func withDamage(_ sql: String, _ check: (Verification) throws -> Void) throws {
        try withSession { connection in
            let record = try connection.make()
            var writer = BatchWriter(record)
            for value in 0..<20 as Range<Int64> { _ = try connection.commit(writer.set("k\(value)", .int(value))) }
            try connection.sql.executeScript(sql)
            let verification = try Verification.run(connection, record)
            try check(verification)
            if sql != "select 1" { #expect(!verification.isClean) }
        }
    }
}
