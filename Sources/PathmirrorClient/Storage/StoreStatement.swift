/// Statements that are compiled when they are first needed.
enum StoreStatement: String {
    case putWrite = "INSERT OR REPLACE INTO writes VALUES (?1, ?2, ?3)"
    case removeWrite = "DELETE FROM writes WHERE id = ?1"
    case putQuery = "INSERT OR REPLACE INTO queries VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
    case removeQuery = "DELETE FROM queries WHERE id = ?1"
    case keys = "SELECT key FROM query_keys WHERE query = ?1"
    case putKey = "INSERT OR IGNORE INTO query_keys VALUES (?1, ?2)"
    case removeKey = "DELETE FROM query_keys WHERE query = ?1 AND key = ?2"
    case removeKeys = "DELETE FROM query_keys WHERE query = ?1"
}
