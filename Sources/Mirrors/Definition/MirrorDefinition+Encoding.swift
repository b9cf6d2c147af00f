import Tree

extension MirrorDefinition {
    /// The definition as JSON with everything said that was left out, but the target: as the database keeps it.
    public var json: [UInt8] { encoded(pretty: false) }

    /// The definition as a file for people.
    public func encoded(pretty: Bool) -> [UInt8] {
        var writer = JSONWriter(form: .plain, pretty: pretty)
        writer.beginObject()
        writer.writeKey("name", isFirst: true)
        writer.writeString(name)
        if let namespace { Self.member(&writer, "namespace", namespace) }
        Self.member(&writer, "path", pattern.description)
        if let filter { Self.member(&writer, "filter", filter.text) }
        Self.member(&writer, "table", tableName)
        if let comment { Self.member(&writer, "comment", comment) }
        writer.writeKey("keys", isFirst: false)
        writer.beginObject()
        for (index, key) in keys.enumerated() {
            writer.writeKey(key.name, isFirst: index == 0)
            guard let comment = key.comment else {
                writer.writeString(key.type.rawValue)
                continue
            }
            writer.beginObject()
            writer.writeKey("type", isFirst: true)
            writer.writeString(key.type.rawValue)
            Self.member(&writer, "comment", comment)
            writer.endObject()
        }
        writer.endObject()
        writer.writeKey("columns", isFirst: false)
        writer.beginObject()
        for (index, column) in columns.enumerated() {
            writer.writeKey(column.name, isFirst: index == 0)
            Self.write(column, &writer)
        }
        writer.endObject()
        writeRest(&writer)
        writeIndexes(&writer)
        switch keeps {
        case nil: break
        case .latest: Self.member(&writer, "deleted", "soft")
        case .changes: Self.member(&writer, "keeps", "changes")
        }
        if keptErrors != Self.defaultKeptErrors {
            writer.writeKey("keep errors", isFirst: false)
            writer.writeInteger(Int64(keptErrors))
        }
        writer.endObject()
        return writer.bytes
    }

    private static func member(_ writer: inout JSONWriter, _ key: String, _ value: String) {
        writer.writeKey(key, isFirst: false)
        writer.writeString(value)
    }

    private static func write(_ column: Column, _ writer: inout JSONWriter) {
        let path = column.path.isRoot ? "." : String(column.path.description.unicodeScalars.dropFirst())
        let isPlain = column.defaultValue.isNull && column.notNull == nil && column.comment == nil
        if isPlain, path == column.name { return writer.writeString(column.type.rawValue) }
        writer.beginObject()
        writer.writeKey("type", isFirst: true)
        writer.writeString(column.type.rawValue)
        if path != column.name { member(&writer, "path", path) }
        if !column.defaultValue.isNull {
            writer.writeKey("default", isFirst: false)
            writer.write(column.defaultValue)
        }
        if let notNull = column.notNull { member(&writer, "not null", notNull.rawValue) }
        if let comment = column.comment { member(&writer, "comment", comment) }
        writer.endObject()
    }

    private func writeRest(_ writer: inout JSONWriter) {
        guard let rest else { return }
        writer.writeKey("rest", isFirst: false)
        writer.beginObject()
        writer.writeKey("column", isFirst: true)
        writer.writeString(rest.name)
        if let comment = rest.comment { Self.member(&writer, "comment", comment) }
        writer.endObject()
    }

    private func writeIndexes(_ writer: inout JSONWriter) {
        guard !indexes.isEmpty else { return }
        writer.writeKey("indexes", isFirst: false)
        writer.beginArray()
        for (position, index) in indexes.enumerated() {
            if position > 0 { writer.raw(",") }
            writer.beginObject()
            writer.writeKey("columns", isFirst: true)
            writer.beginArray()
            for (place, column) in index.columns.enumerated() {
                if place > 0 { writer.raw(",") }
                writer.writeString(column)
            }
            writer.endArray()
            Self.member(&writer, "using", index.isGIN ? "gin" : "btree")
            writer.endObject()
        }
        writer.endArray()
    }
}

extension JSONWriter {
    mutating func beginArray() { raw("[") }
    mutating func endArray() { raw("]") }
}
