/// What an index of a table that is being made is called now, and once that is whole.
struct IndexNameToBe {
    let built: String
    let name: String

    /// A text of the server with the name that people know. The server quotes names, so that one that begins like another is
    /// not taken for it.
    func naming(_ text: String) -> String { text.replacing("\"\(built)\"", with: "\"\(name)\"") }

    /// Those of a definition's own indexes, the key's among them.
    static func own(of table: MirrorTable) -> [IndexNameToBe] {
        zip(table.indexNames(of: table.name), table.indexNames(of: table.definition.table)).map {
            IndexNameToBe(built: $0, name: $1)
        }
    }
}
