import LogStore
import Postgres
import Tree

/// Which rows of a table with unique indexes are missing rightly. Which of two records has the row is not said by the tree; that one
/// has it, and that the other waits for it, is.
enum UniqueComparison {
    /// Looks at records that have no row.
    ///
    /// - Returns: those that don't wait, and those that wait for values that no row has.
    static func take(
        _ missing: [[Key]], _ unique: UniqueStatements, _ mirror: ActiveMirror, _ connection: PostgresConnection
    ) throws -> (rest: [[Key]], wrong: [[Key]]) {
        var keys = PostgresArray(of: .text)
        for record in missing { keys.appendText(RecordKey.text(record)) }
        var parameters = mirror.asGeneration.parameters
        parameters.append(keys)
        let rows = try connection.executePrepared(unique.waiting, parameters)
        var waits: [[UInt8]: Bool] = [:]
        for row in 0..<rows.rowCount { waits[try rows.bytes(row, 0)] = try rows.bool(row, 1) }
        var rest: [[Key]] = []
        var wrong: [[Key]] = []
        for record in missing {
            switch waits[Array(RecordKey.text(record).utf8)] {
            case nil: rest.append(record)
            case false?: wrong.append(record)
            case true?: break
            }
        }
        return (rest, wrong)
    }
}
