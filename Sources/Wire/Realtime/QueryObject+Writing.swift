import Tree

extension QueryObject {
    /// Writes a query as the SDK for JavaScript does: members that say nothing are left out (reference: rtdb-protocol 3.1).
    static func write(_ query: Query, to writer: inout JSONWriter) {
        var isFirst = true
        func key(_ name: String) {
            writer.writeKey(name, isFirst: isFirst)
            isFirst = false
        }
        func bound(_ bound: Query.Bound?, _ names: (value: String, key: String, inclusive: String)) {
            guard let bound else { return }
            key(names.value)
            writer.write(bound.value.node)
            if let name = bound.key {
                key(names.key)
                writer.writeString(name.text)
            }
            key(names.inclusive)
            writer.raw(bound.isInclusive ? "true" : "false")
        }
        writer.beginObject()
        bound(query.start, ("sp", "sn", "sin"))
        bound(query.end, ("ep", "en", "ein"))
        if let limit = query.limit {
            key("l")
            switch limit {
            case .first(let count): writer.writeInteger(Int64(count))
            case .last(let count): writer.writeInteger(Int64(count))
            }
            key("vf")
            if case .first = limit { writer.raw("\"l\"") } else { writer.raw("\"r\"") }
        }
        if let name = name(of: query.index) {
            key("i")
            writer.writeString(name)
        }
        writer.endObject()
    }

    /// Nil for the index that is meant where none is named.
    private static func name(of index: Query.Index) -> String? {
        switch index {
        case .key: ".key"
        case .value: ".value"
        case .priority: nil
        case .child(let path): String(path.description.unicodeScalars.dropFirst())
        }
    }
}
