import TestSupport
import Testing

@testable import Mirrors

/// A mirror whose table is divided by the months of `at`.
func dividedOrders(_ more: String = "", partition: String = "") -> String {
    #"""
    {"name": "orders", "path": "/o/{k}", "columns": {"at": {"type": "timestamptz"}, "n": "bigint"}\#(more),
     "partition": {"by": "at", "every": "month"\#(partition)}}
    """#
}

/// Each row with the partition that it is in.
func placedRows(_ bench: MirrorBench, _ table: String = "orders") throws -> [String] {
    try bench.lines("select k, n, tableoid::regclass from mirror.\(table) order by k, n")
}

/// The same, waited for: partitions are made behind the step that has brought their rows.
func expectPlaced(_ bench: MirrorBench, _ expected: [String], _ table: String = "orders") throws {
    let isSo = try eventually { try placedRows(bench, table) == expected }
    #expect(try isSo || placedRows(bench, table) == expected)
}

/// The partitions and their bounds.
func partitions(_ bench: MirrorBench, of table: String = "orders") throws -> [String] {
    try bench.lines(
        """
        select relname, pg_get_expr(relpartbound, oid) from pg_inherits join pg_class on oid = inhrelid
        where inhparent = 'mirror.\(table)'::regclass order by 1
        """)
}
