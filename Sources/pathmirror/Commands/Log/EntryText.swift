import Runtime
import Tree

/// One entry as a line: for people, or as JSON.
enum EntryText {
    /// For a terminal: columns that align as far as that can be without knowing the entries that come, cut where it ends.
    ///
    /// - Parameters:
    ///   - head: the newest entry, whose number is the widest.
    ///   - width: the terminal's; nil where there is none: lines are whole then, and two spaces apart.
    static func line(_ entry: Entry, head: Int64 = 0, width: Int? = nil) -> String {
        let cells = cells(entry)
        guard let width else { return cells.joined(separator: "  ") }
        let seq = String(repeating: " ", count: max(0, "\(head)".count - cells[0].count)) + cells[0]
        let author = max(8, min(authorWidth, width / 5))
        let padded =
            [seq, cells[1], pad(cells[2], to: operationWidth), pad(TextWidth.fitted(cells[3], to: author), to: author)]
            + cells[4...]
        return TextWidth.fitted(padded.joined(separator: "  "), to: width)
    }

    /// The longest name of an operation, `transaction`.
    private static let operationWidth = Operation.allCases.map(\.rawValue.count).max() ?? 0
    /// Most authors fit: `anonymous by rest from 127.0.0.1`.
    private static let authorWidth = 32

    private static func pad(_ text: String, to width: Int) -> String {
        text + String(repeating: " ", count: max(0, width - TextWidth.of(text)))
    }

    private static func cells(_ entry: Entry) -> [String] {
        let changes = String(decoding: ChangeCodec.encode(entry.changes), as: UTF8.self)
        let shown = changes.utf8.count > 200 ? "\(changes.prefix(200))… (\(changes.utf8.count) bytes)" : changes
        let bulk = entry.isBulk ? " (and more, in parts)" : ""
        return [
            "\(entry.seq)", Timestamp.iso8601(unixMilliseconds: entry.committedAt), entry.operation.rawValue,
            OriginText.whom(entry.origin), "\(entry.path)", "\(shown)\(bulk)",
        ]
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
