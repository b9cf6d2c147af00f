import Tree

/// The additions, changes and removals of a plan, as text and as JSON.
enum RowSummaryText {
    /// One line for each kind of change, with the number of leaves and the first paths.
    static func lines(_ summary: RowSummary) -> [String] {
        [line("adds   ", summary.added), line("changes", summary.changed), line("removes", summary.removed)]
    }

    private static func line(_ verb: String, _ rows: RowSummary.Rows) -> String {
        var text = "  \(verb)  \(Counted.text(rows.count, "leaf"))"
        guard rows.count > 0 else { return text }
        text += ": " + rows.firstPaths.map(TextWidth.plain).joined(separator: ", ")
        let more = rows.count - Int64(rows.firstPaths.count)
        return more > 0 ? "\(text) and \(more) more" : text
    }

    static func json(_ summary: RowSummary) -> JSONOutput {
        .object([
            "added": json(summary.added), "changed": json(summary.changed), "removed": json(summary.removed),
        ])
    }

    private static func json(_ rows: RowSummary.Rows) -> JSONOutput {
        .object(["count": .number(rows.count), "firstPaths": .list(rows.firstPaths.map { .text($0) })])
    }
}

/// Suggests the command that reverses an entry.
enum UndoHint {
    static func command(_ seq: Int64, _ namespace: String, _ arguments: ParsedArguments) -> String {
        let text = "pathmirror log undo \(seq) --ns \(namespace)"
        guard arguments.source("data") == .commandLine, let directory = arguments["data"] else { return text }
        return "\(text) --data \(directory)"
    }
}
