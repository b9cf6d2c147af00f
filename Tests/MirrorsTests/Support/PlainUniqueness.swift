import Mirrors
import Tree

/// Unique indexes, worked out the slow and simple way: which of some records has the row is open, that one of them has it is not.
extension PlainProjection {
    /// The projection without the records that rightly have no row as others have their values, which are errors instead; and why
    /// one has none wrongly.
    func without(missing found: [[Key]: Row], _ definition: MirrorDefinition) -> (PlainProjection, mistake: String?) {
        let indexes = definition.indexes.filter(\.isUnique)
        guard !indexes.isEmpty else { return (self, nil) }
        let held = indexes.map { index in Set(found.compactMap { values($0.key, $0.value, index, definition) }) }
        var left = self
        for (keys, row) in rows where found[keys] == nil {
            let isHeld = zip(indexes, held).contains { index, held in
                values(keys, row, index, definition).map { held.contains($0) } ?? false
            }
            guard isHeld else { return (left, "no row \(keys), wanted \(row), and no other row has its values") }
            left.rows[keys] = nil
            left.errors.insert([Key(definition.pattern.path(of: keys).description), Key("")])
        }
        return (left, nil)
    }

    /// By bytes, as texts of two spellings are two values; nil where one is NULL.
    private func values(
        _ keys: [Key], _ row: Row, _ index: MirrorDefinition.Index, _ definition: MirrorDefinition
    ) -> [[UInt8]]? {
        var values: [[UInt8]] = []
        for name in index.columns {
            if let place = definition.keys.firstIndex(where: { $0.name == name }) {
                values.append(Array(keys[place].text.utf8))
            } else if let place = definition.columns.firstIndex(where: { $0.name == name }),
                let text = row.columns[place]
            {
                values.append(Array(text.utf8))
            } else {
                return nil
            }
        }
        return values
    }
}
