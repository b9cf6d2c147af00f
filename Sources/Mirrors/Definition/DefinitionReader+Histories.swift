import JSONText

extension DefinitionReader {
    /// What the mirror's own table keeps: `"keeps": "changes"`, or `"deleted": "soft"`.
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
        guard let keeps, let text = text(keeps, "keeps") else { return nil }
        if text != "changes" { note(keeps.place, "keeps", "makes the mirror itself a history: \"changes\"") }
        return .changes
    }

    /// Whether a history stands beside the mirror: `"history": true`.
    mutating func hasHistory(
        _ value: SourceValue?, _ keeps: MirrorDefinition.Keeps?, _ name: String?, _ table: String
    ) -> Bool {
        guard let value else { return false }
        guard case .bool(let isWanted) = value.kind else {
            note(value.place, "history", "this should be true or false, but is \(value.kindName)")
            return false
        }
        guard isWanted else { return false }
        checkIdentifier("\(table)_changes", value.place, "history")
        if let name, "\(name)_changes".utf8.count > MirrorDefinition.maxNameBytes {
            note(value.place, "history", "the name \(name)_changes is longer than 63 bytes")
        }
        if keeps == .changes { note(value.place, "history", "this mirror is a history itself, by \"keeps\"") }
        return true
    }
}
