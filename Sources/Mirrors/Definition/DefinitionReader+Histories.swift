import JSONText

extension DefinitionReader {
    /// What the mirror's own table keeps: `"keeps": "changes"`, `"keeps": "versions"`, or `"deleted": "soft"`.
    mutating func keeps(_ keeps: SourceValue?, _ deleted: SourceValue?) -> MirrorDefinition.Keeps? {
        if let deleted {
            guard let text = text(deleted, "deleted") else { return nil }
            if text != "soft" {
                note(deleted.place, "deleted", "says what becomes of the rows of records that are gone: \"soft\"")
            }
            if keeps != nil {
                note(deleted.place, "deleted", "a history has its own rows for what is gone: leave this out")
            }
            return .latest
        }
        return keeps.flatMap { history($0, "keeps") }
    }

    /// The histories beside the mirror: one of them, or an array.
    mutating func histories(
        _ value: SourceValue?, _ keeps: MirrorDefinition.Keeps?, _ name: String?, _ table: String
    ) -> [MirrorDefinition.Keeps] {
        guard let value else { return [] }
        var values = [value]
        if case .array(let elements) = value.kind { values = elements }
        var found: [MirrorDefinition.Keeps] = []
        for value in values {
            guard let one = history(value, "history") else { continue }
            if found.contains(one) {
                note(value.place, "history", "\"\(one.rawValue)\" is there twice")
                continue
            }
            found.append(one)
            checkIdentifier("\(table)_\(one.rawValue)", value.place, "history")
            if let name, "\(name)_\(one.rawValue)".utf8.count > MirrorDefinition.maxNameBytes {
                note(value.place, "history", "the name \(name)_\(one.rawValue) is longer than 63 bytes")
            }
        }
        if keeps == .changes || keeps == .versions {
            note(value.place, "history", "this mirror is a history itself, by \"keeps\"")
        }
        return found
    }

    private mutating func history(_ value: SourceValue, _ part: String) -> MirrorDefinition.Keeps? {
        guard let text = text(value, part) else { return nil }
        if text == "changes" { return .changes }
        if text == "versions" { return .versions }
        note(value.place, part, "there is no history \"\(text)\"; histories are \"changes\", \"versions\"")
        return nil
    }
}
