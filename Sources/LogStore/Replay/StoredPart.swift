import Postgres
import Tree

extension LogConnection {
    /// Reads the row of a path, which is a leaf's or, if the path names one, a priority's; null if there is none.
    func readLeaf(_ namespace: Int64, _ path: Path) throws -> Node {
        let rows = try postgres.execute(
            "select value::text from pathmirror.node where namespace_id = $1 and path = $2",
            [.int8(namespace), .textBytes(StoredPath(Array(path.description.utf8)).key)])
        guard rows.rowCount == 1 else { return .null }
        return try rows.withBytes(0, 0) { try JSONParser.parse($0) } ?? .null
    }
}
