import LogStore
import Postgres
import TestSupport
import Tree

/// Entries in parts, as large writes of several megabytes create them.
enum RandomParts {
    /// Splits the newest entry that has one part with several changes into more parts, without changing its meaning.
    static func split(_ sql: PostgresConnection, _ namespace: Int64, _ random: inout SeededGenerator) throws {
        let found = try sql.execute(
            """
            select seq, part.changes::text from pathmirror.log join pathmirror.log_part as part using (namespace_id, seq)
            where namespace_id = $1 and log.parts = 1 order by seq desc limit 1
            """, [.int8(namespace)])
        guard found.rowCount == 1 else { return }
        let seq = try found.int64(0, 0)
        let changes = try ChangeCodec.decode(try found.bytes(0, 1))
        guard changes.count > 1 else { return }
        try sql.executeScript("begin")
        _ = try sql.execute(
            "delete from pathmirror.log_part where namespace_id = $1 and seq = $2", [.int8(namespace), .int8(seq)])
        var rest = changes[...]
        var number: Int32 = 0
        while !rest.isEmpty {
            let part = Array(rest.prefix(1 + random.below(2)))
            rest = rest.dropFirst(part.count)
            var parameters: PostgresParameters = [.int8(namespace), .int8(seq), .int4(number)]
            parameters.appendJSON(ChangeCodec.encode(part))
            _ = try sql.execute(
                "insert into pathmirror.log_part (namespace_id, seq, part, changes) values ($1, $2, $3, $4)", parameters
            )
            number += 1
        }
        _ = try sql.execute(
            "update pathmirror.log set parts = $3 where namespace_id = $1 and seq = $2",
            [.int8(namespace), .int8(seq), .int4(number)])
        try sql.executeScript("commit")
    }
}
