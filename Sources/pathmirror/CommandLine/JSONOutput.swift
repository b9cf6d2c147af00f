import Tree

/// The output of `--json` for values that need more than a line of code.
indirect enum JSONOutput {
    case null
    case bool(Bool)
    case number(Int64)
    case text(String)
    /// Bytes that are JSON already.
    case raw([UInt8])
    case list([JSONOutput])
    case object(KeyValuePairs<String, JSONOutput>)

    init(_ text: String?) { self = text.map(JSONOutput.text) ?? .null }

    /// The JSON on one line.
    var line: String {
        var writer = JSONWriter(form: .plain)
        write(to: &writer)
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    private func write(to writer: inout JSONWriter) {
        switch self {
        case .null: writer.raw("null")
        case .bool(let flag): writer.raw(flag ? "true" : "false")
        case .number(let number): writer.writeInteger(number)
        case .text(let text): writer.writeString(text)
        case .raw(let json): writer.append(json)
        case .list(let items):
            writer.raw("[")
            for (index, item) in items.enumerated() {
                if index > 0 { writer.raw(",") }
                item.write(to: &writer)
            }
            writer.raw("]")
        case .object(let members):
            writer.beginObject()
            for (index, member) in members.enumerated() {
                writer.writeKey(member.key, isFirst: index == 0)
                member.value.write(to: &writer)
            }
            writer.endObject()
        }
    }
}
