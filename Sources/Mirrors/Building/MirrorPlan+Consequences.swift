extension MirrorPlan {
    /// What carrying the plan out would make, change and drop, as sentences; nothing where it would do nothing.
    public var consequences: [String] {
        let table = definition.tableName
        switch action {
        case .unchanged: return []
        case .create: return ["\(table) would be made and filled from \(source)."]
        case .alter:
            return ["\(table) would be changed in place; its rows stay."]
        case .rebuild:
            guard let obeyed else { return ["\(table) would be made anew."] }
            var sentences = ["\(table) would be made anew, and \(retired(obeyed)) dropped once that is whole."]
            let dropped = dropped(from: obeyed)
            if !dropped.isEmpty {
                let word = dropped.count == 1 ? "column" : "columns"
                sentences.append("The new table would not have the \(word) \(dropped.joined(separator: ", ")).")
            }
            return sentences + losses
        }
    }

    private var source: String {
        switch definition.keeps {
        case nil: "the tree"
        case .latest: "the log, as far back as that reaches for what is removed"
        case .changes: "the log, as far back as that reaches"
        }
    }

    private func retired(_ obeyed: MirrorDefinition) -> String {
        obeyed.tableName == definition.tableName ? "the table that is there" : obeyed.tableName
    }

    /// The columns that the table has, and its successor would not have under any name.
    private func dropped(from obeyed: MirrorDefinition) -> [String] {
        let renamed = Set(renames.map(\.old))
        let kept = Set(definition.columns.map(\.name) + definition.keys.map(\.name) + [definition.rest?.name ?? ""])
        let before = obeyed.columns.map(\.name) + (obeyed.rest.map { [$0.name] } ?? [])
        return before.filter { !renamed.contains($0) && !kept.contains($0) }
    }
}
