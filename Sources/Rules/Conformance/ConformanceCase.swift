internal import Tree

/// One row of a table of cases. A case loads the rules, puts the data into an empty database, runs one operation, and compares
/// the decision. The format is that of the reference's `rules-conformance.json`.
struct ConformanceCase {
    enum Operation: String {
        case read
        case query
        case write
        case update
    }

    enum Expectation: String {
        case allow
        case deny
        case uploadError = "upload_error"
    }

    var name = ""
    /// The text of the rules document.
    var rules: [UInt8] = []
    var data = Node.null
    var auth = Node.null
    var now: Int64 = 0
    var operation = Operation.read
    var path = Path.root
    /// The JSON text of the value written.
    var value: [UInt8] = Array("null".utf8)
    var query = QueryContext.plain
    var expectation = Expectation.allow
    /// The upload's error without its position, if the case checks the wording.
    var error: String?
    /// The position of the upload's error as `LINE:COLUMN`, if the case checks it.
    var errorPosition: String?
    /// The reason why the case is believed to be wrong. Such a case is run and reported, but never fails the table.
    var disputed: String?
}

/// Reads a table of cases: an object whose `cases` member is a list of them.
struct ConformanceReader {
    static func cases(_ bytes: [UInt8]) throws(TextError) -> [ConformanceCase] {
        var reader = TextReader(bytes)
        try reader.skipSpace()
        guard reader.peek == UInt8(ascii: "{") else { throw reader.error("Expected '{'.") }
        var cases: [ConformanceCase] = []
        try reader.members { (reader, key, _) throws(TextError) in
            guard key == "cases", reader.peek == UInt8(ascii: "[") else { return try reader.skipValue() }
            try reader.elements { (reader) throws(TextError) in
                guard reader.peek == UInt8(ascii: "{") else { throw reader.error("Expected '{'.") }
                cases.append(try self.case(&reader))
            }
        }
        try reader.skipSpace()
        if reader.peek != nil { throw reader.error("Parse error.") }
        return cases
    }

    private static func `case`(_ reader: inout TextReader) throws(TextError) -> ConformanceCase {
        var row = ConformanceCase()
        try reader.members { (reader, key, _) throws(TextError) in
            let start = reader.index
            // Strings are read without their escapes, other values as they are written.
            let text = reader.peek == UInt8(ascii: "\"") ? try reader.string().string : nil
            if text == nil { try reader.skipValue() }
            let raw = Array(reader.bytes[start..<reader.index])
            let isNull = raw.elementsEqual("null".utf8)
            switch key {
            case "name": row.name = text ?? ""
            case "rules": row.rules = text.map { Array($0.utf8) } ?? raw
            case "data": row.data = try node(raw, at: start)
            case "auth": row.auth = try node(raw, at: start)
            case "now":
                guard case .int(let now) = try node(raw, at: start) else {
                    throw TextError(offset: start, message: "'now' must be an integer.")
                }
                row.now = now
            case "op": row.operation = try word(text, at: start)
            case "path": row.path = Path(splitting: text ?? "")
            case "value": row.value = raw
            case "query": if !isNull { row.query = try query(raw, at: start) }
            case "expect": row.expectation = try word(text, at: start)
            case "error": row.error = text
            case "error_position": row.errorPosition = text
            case "disputed": row.disputed = text
            default: break
            }
        }
        return row
    }

    private static func word<Word: RawRepresentable<String>>(_ text: String?, at offset: Int) throws(TextError) -> Word
    {
        guard let word = text.flatMap(Word.init(rawValue:)) else {
            throw TextError(offset: offset, message: "Unknown word '\(text ?? "")'.")
        }
        return word
    }

    private static func node(_ raw: [UInt8], at offset: Int) throws(TextError) -> Node {
        do { return try JSONParser.parse(raw).node } catch {
            throw TextError(offset: offset, message: "The value is not valid data: \(error.reason).")
        }
    }

    private static func query(_ raw: [UInt8], at offset: Int) throws(TextError) -> QueryContext {
        var query = QueryContext.plain
        let fields = try node(raw, at: offset)
        if case .bool(true) = fields.child(Key("orderByKey")) { query.order = .key }
        if case .bool(true) = fields.child(Key("orderByValue")) { query.order = .value }
        if case .bool(true) = fields.child(Key("orderByPriority")) { query.order = .priority }
        if case .string(let path) = fields.child(Key("orderByChild")) { query.order = .child(path) }
        query.startAt = fields.child(Key("startAt"))
        query.endAt = fields.child(Key("endAt"))
        query.equalTo = fields.child(Key("equalTo"))
        if case .int(let limit) = fields.child(Key("limitToFirst")) { query.limitToFirst = Int(limit) }
        if case .int(let limit) = fields.child(Key("limitToLast")) { query.limitToLast = Int(limit) }
        return query
    }
}
