import Runtime
import Tree

/// One entry as a line: for people, or as JSON.
enum EntryText {
    /// - Parameter width: the terminal's; nil where there is none, and lines may be long.
    static func line(_ entry: Entry, width: Int? = nil) -> String {
        let line = whole(entry)
        return width.map { TextWidth.fitted(line, to: $0) } ?? line
    }

    private static func whole(_ entry: Entry) -> String {
        let changes = String(decoding: ChangeCodec.encode(entry.changes), as: UTF8.self)
        let shown = changes.utf8.count > 200 ? "\(changes.prefix(200))… (\(changes.utf8.count) bytes)" : changes
        let bulk = entry.isBulk ? " (and more, in parts)" : ""
        return "\(entry.seq)  \(Timestamp.iso8601(unixMilliseconds: entry.committedAt))  \(entry.operation.rawValue)  "
            + "\(OriginText.whom(entry.origin))  \(entry.path)  \(shown)\(bulk)"
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
