import Tree

/// What one change of an entry does to the records of a pattern.
enum RecordChange {
    /// A place in one record, which may be the record itself, has this value from then on.
    case record([Key], place: Path, value: Node)
    /// All records below these first keys are gone, and those are there that are in the value, which is at the pattern's part.
    case range([Key], value: Node, part: Int)

    /// Nil for a change that touches no record. A priority above the records is none of theirs: it has no captured keys.
    init?(_ change: Change, _ pattern: PathPattern) {
        let path = change.path
        guard let keys = pattern.captured(path) else { return nil }
        if path.depth >= pattern.depth {
            self = .record(keys, place: path.dropFirst(pattern.depth), value: change.value)
            return
        }
        if keys.count == pattern.captures.count {
            // One record, below a place with a fixed name: the value holds it, or there is none.
            let rest = Path(
                pattern.parts.dropFirst(path.depth).compactMap { if case .key(let key) = $0 { key } else { nil } })
            self = .record(keys, place: .root, value: change.value[rest])
            return
        }
        self = .range(keys, value: change.value, part: path.depth)
    }

    /// Visits the records inside of a value at a part of the pattern.
    static func each(
        in value: Node, _ pattern: PathPattern, part: Int, _ keys: [Key], _ body: ([Key], Node) throws -> Void
    ) rethrows {
        try RecordWalk.each(pattern, in: value, at: part, keys, body)
    }
}
