import JSONText

extension DefinitionReader {
    mutating func indexes(
        _ value: SourceValue?, _ keys: [MirrorDefinition.KeyColumn], _ columns: [MirrorDefinition.Column],
        _ rest: MirrorDefinition.Rest?, _ keeps: MirrorDefinition.Keeps?
    ) -> [MirrorDefinition.Index] {
        guard let value else { return [] }
        guard case .array(let elements) = value.kind else {
            note(value.place, "indexes", "this should be an array of indexes, but is \(value.kindName)")
            return []
        }
        // A table of changes has the columns inside of its rows before and after.
        let isInside = keeps == .changes
        let own = isInside ? [] : columns.map(\.name) + (rest.map { [$0.name] } ?? [])
        let names = mistakenColumns.union(keys.map(\.name) + own + MirrorDefinition.ownColumnsForIndexes(keeps))
        let many = columns.filter { $0.type == .jsonb || $0.type == .textArray }.map(\.name)
        let manyValued = isInside ? ["_old", "_new"] : Set(many + (rest.map { [$0.name] } ?? []))
        var found: [MirrorDefinition.Index] = []
        for (number, element) in elements.enumerated() {
            let part = "indexes[\(number)]"
            guard let index = self.index(element, part, names: names, manyValued: manyValued) else { continue }
            if found.contains(index) { note(element.place, part, "this index is there twice") }
            found.append(index)
        }
        return found
    }

    private mutating func index(
        _ value: SourceValue, _ part: String, names: Set<String>, manyValued: Set<String>
    ) -> MirrorDefinition.Index? {
        var list = value
        var method: String?
        if case .object = value.kind {
            guard let members = object(value, part, allowed: ["columns", "using"]) else { return nil }
            guard let columns = members["columns"] else {
                note(value.place, part, "the columns are missing")
                return nil
            }
            list = columns
            method = members["using"].flatMap { text($0, "\(part).using") }
            if let method, !["btree", "gin"].contains(method), let place = members["using"]?.place {
                note(place, "\(part).using", "there is no method \"\(method)\"; methods are btree, gin")
            }
        }
        var columns: [String] = []
        switch list.kind {
        case .string(let name): columns = [name]
        case .array(let elements): columns = elements.compactMap { text($0, part) }
        default: note(list.place, part, "this should be a column's name or an array of them, but is \(list.kindName)")
        }
        for name in columns where !names.contains(name) { note(list.place, part, "there is no column \"\(name)\"") }
        guard !columns.isEmpty else {
            if case .array = list.kind { note(list.place, part, "the index has no columns") }
            return nil
        }
        let isGIN = method.map { $0 == "gin" } ?? columns.contains { manyValued.contains($0) }
        if isGIN, !columns.allSatisfy({ manyValued.contains($0) }) {
            note(list.place, part, "a gin index is for columns of jsonb and arrays alone")
        }
        return .init(columns: columns, isGIN: isGIN)
    }
}

extension MirrorDefinition {
    /// Columns of ours that indexes may be made of.
    fileprivate static func ownColumnsForIndexes(_ keeps: Keeps?) -> [String] {
        switch keeps {
        case nil: [seqColumn, updatedAtColumn]
        case .latest: [seqColumn, updatedAtColumn, deletedAtColumn]
        case .changes: [seqColumn, "_at", "_operation", "_uid", "_old", "_new"]
        }
    }
}
