import JSONText

/// Whether the histories beside the mirrors of a file have names, tables and views of their own.
enum HistoryNames {
    /// What is in the way, if anything.
    ///
    /// - Parameters:
    ///   - place: where the mirror is that has the history.
    ///   - others: the mirrors of the file before, and their histories.
    static func problem(
        _ place: SourcePlace, _ mirror: MirrorDefinition, _ history: MirrorDefinition?,
        among others: [(definition: MirrorDefinition, isHistory: Bool)]
    ) -> DefinitionError.Problem? {
        for other in others {
            guard let history, let what = shared(history, other.definition) else { continue }
            return .init(
                place: place, part: "history",
                reason: "the history \"\(history.name)\" has the \(what) of another mirror in this file")
        }
        for other in others where other.isHistory {
            guard let what = shared(mirror, other.definition) else { continue }
            return .init(
                place: place, part: "name",
                reason: "\"\(mirror.name)\" has the \(what) of a history in this file, \"\(other.definition.name)\"")
        }
        return nil
    }

    private static func shared(_ one: MirrorDefinition, _ other: MirrorDefinition) -> String? {
        if one.namespace == other.namespace, one.name == other.name { return "name" }
        if one.target == other.target, !one.relations.isDisjoint(with: other.relations) { return "table" }
        return nil
    }
}
