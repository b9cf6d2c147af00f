import LogStore
import Runtime
import Tree

/// One entry on a line: as text or as JSON.
enum EntryText {
    /// A table of entries, as wide as a terminal.
    ///
    /// - Parameters:
    ///   - head: the newest entry, whose number is the widest.
    ///   - width: the terminal's; nil where there is none.
    static func table(head: Int64, width: Int?) -> StreamedTable {
        StreamedTable(
            [
                seqColumn(head: head), timeColumn, operationColumn(width), authorColumn(width), pathColumn(width),
                .init("CHANGES"),
            ], width: width)
    }

    static func seqColumn(head: Int64) -> StreamedTable.Column {
        .init("SEQ", max("SEQ".count, "\(head)".count), isNumber: true)
    }

    /// The column of times, with their fixed width.
    static var timeColumn: StreamedTable.Column { .init("COMMITTED", "2026-01-31T12:00:00.000Z".count) }

    /// The width from which a terminal counts as wide. On narrower ones the column of changes has priority.
    private static let wide = 110

    /// The column of operations: as wide as `transaction`, or as `update` on a narrow terminal.
    static func operationColumn(_ width: Int?) -> StreamedTable.Column {
        let longest = Operation.allCases.map(\.rawValue.count).max() ?? 0
        return .init("OPERATION", width ?? wide < wide ? "update".count : longest)
    }

    /// The column of authors. Most fit: `anonymous by rest from 127.0.0.1`.
    static func authorColumn(_ width: Int?) -> StreamedTable.Column {
        let width = width ?? wide
        return .init("BY", max(8, min(32, width < wide ? width / 8 : width / 5)))
    }

    /// The column of paths. Longer paths are shown whole and shift the changes, as users search by path.
    static func pathColumn(_ width: Int?) -> StreamedTable.Column {
        .init("PATH", max(8, min(32, (width ?? wide) / 6)), isWhole: true)
    }

    /// The cells of a row of this table.
    static func cells(_ entry: Entry) -> [String] {
        let bulk = entry.isBulk ? " (and more, in parts)" : ""
        return [
            "\(entry.seq)", Timestamp.iso8601(unixMilliseconds: entry.committedAt), entry.operation.rawValue,
            OriginText.author(entry.origin), "\(entry.path)", shown(entry.changes) + bulk,
        ]
    }

    /// Changes as JSON. A line shows the beginning.
    static func shown(_ changes: [Change]) -> String {
        let text = String(decoding: ChangeCodec.encode(changes), as: UTF8.self)
        return text.utf8.count > 200 ? "\(text.prefix(200))… (\(text.utf8.count) bytes)" : text
    }

    static func json(_ entry: Entry) -> String {
        var writer = JSONWriter(form: .export)
        writer.beginObject()
        writer.writeKey("seq", isFirst: true)
        writer.writeInteger(entry.seq)
        writer.writeKey("committedAt", isFirst: false)
        writer.writeString(Timestamp.iso8601(unixMilliseconds: entry.committedAt))
        writer.writeKey("op", isFirst: false)
        writer.writeString(entry.operation.rawValue)
        writer.writeKey("path", isFirst: false)
        writer.writeString(entry.path.description)
        writer.writeKey("origin", isFirst: false)
        writer.append(entry.origin?.json ?? Array("null".utf8))
        writer.writeKey("bulk", isFirst: false)
        writer.write(.bool(entry.isBulk))
        writer.writeKey("changes", isFirst: false)
        writer.beginObject()
        for (index, change) in entry.changes.enumerated() {
            writer.writeKey(change.path.description, isFirst: index == 0)
            writer.write(change.value)
        }
        writer.endObject()
        writer.endObject()
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}

/// Describes the author of an entry.
enum OriginText {
    /// Such as `ada by ws from 10.0.0.7`, `administrator by sql as report`.
    static func author(_ origin: Origin?) -> String {
        guard let members = origin.flatMap({ RawJSON($0.json).members }) else { return "unknown" }
        let value = { (name: String) in members.first { $0.key == name }?.value }
        var text = value("uid")?.string ?? (value("admin")?.bool == true ? "administrator" : "anonymous")
        if let via = value("via")?.string { text += " by \(via)" }
        if let role = value("role")?.string { text += " as \(role)" }
        if let address = value("ip")?.string { text += " from \(address)" }
        // User ids come from the issuers of tokens and may contain any character.
        return TextWidth.plain(text)
    }
}
