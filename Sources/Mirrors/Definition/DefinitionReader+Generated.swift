import JSONText

extension DefinitionReader {
    /// Columns that PostgreSQL computes from the others of the row.
    mutating func generated(
        _ value: SourceValue?, _ keeps: MirrorDefinition.Keeps?
    ) -> [MirrorDefinition.GeneratedColumn] {
        guard let value else { return [] }
        guard case .object(let members) = value.kind else {
            note(value.place, "generated", "this should be an object of columns by name, but is \(value.kindName)")
            return []
        }
        if keeps == .changes {
            note(value.place, "generated", "a table of changes has the columns inside of _old and _new: leave this out")
        }
        return members.compactMap { generatedColumn($0.key, $0.value) }
    }

    private mutating func generatedColumn(
        _ name: String, _ value: SourceValue
    ) -> MirrorDefinition.GeneratedColumn? {
        let part = "generated.\(name)"
        guard let members = object(value, part, allowed: ["type", "as", "comment"]) else { return nil }
        guard let type = members["type"], let expression = members["as"] else {
            note(value.place, part, "it needs \"type\", and \"as\", an expression of SQL on the row's other columns")
            return nil
        }
        guard let typeText = text(type, "\(part).type"), let text = text(expression, "\(part).as") else { return nil }
        if !Self.isType(typeText) { note(type.place, "\(part).type", "\"\(typeText)\" is no name of a type") }
        if text.allSatisfy(\.isWhitespace) { note(expression.place, "\(part).as", "the expression is empty") }
        return .init(
            name: name, type: typeText, expression: text,
            comment: members["comment"].flatMap { self.text($0, "\(part).comment") })
    }

    /// Whether a text may be a type and is no more than words: `numeric(12, 2)`, `text[]`, `tsvector`, `public.geometry`. The
    /// server says whether it is one.
    private static func isType(_ text: String) -> Bool {
        // The text is a part of SQL that has no parameters.
        let pattern =
            /[a-z][a-z0-9_]*([ .][a-z][a-z0-9_]*)*( ?\([0-9]+(, ?[0-9]+)?\)( with(out)? time zone)?)?(\[\])*/
        return text.utf8.count <= MirrorDefinition.maxNameBytes && text.wholeMatch(of: pattern) != nil
    }
}
