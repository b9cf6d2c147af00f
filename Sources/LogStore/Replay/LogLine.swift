import Postgres
public import Tree

/// One line of a file of entries: an entry, or a piece of a bulk entry. A bulk entry is a line that says `"bulk":true`, a
/// line for each part of its changes, and a line that says how many parts there were, so that a cut file shows.
public struct LogLine: Sendable, Equatable {
    public enum Content: Sendable, Equatable {
        case entry(Head, [Change])
        /// What a bulk entry changes first; its parts follow.
        case bulk(Head, [Change])
        case part([Change])
        case end(parts: Int)
    }

    public struct Head: Sendable, Equatable {
        public let operation: Tree.Operation
        public let path: Path
        /// As text, milliseconds since 1970 having gone through ISO 8601.
        public let committedAt: String
        public let origin: Origin?

        public init(operation: Tree.Operation, path: Path, committedAt: String, origin: Origin?) {
            self.operation = operation
            self.path = path
            self.committedAt = committedAt
            self.origin = origin
        }
    }

    /// Names the log that it is from, and the path that it was narrowed to. No two logs have the same.
    public let source: String
    public let seq: Int64
    public let content: Content

    public init(source: String, seq: Int64, content: Content) {
        self.source = source
        self.seq = seq
        self.content = content
    }

    /// The line, without its end.
    public var json: [UInt8] {
        var writer = JSONWriter(form: .export)
        writer.beginObject()
        writer.writeKey("source", isFirst: true)
        writer.writeString(source)
        writer.writeKey("seq", isFirst: false)
        writer.writeInteger(seq)
        switch content {
        case .entry(let head, let changes), .bulk(let head, let changes):
            writer.writeKey("committedAt", isFirst: false)
            writer.writeString(head.committedAt)
            writer.writeKey("op", isFirst: false)
            writer.writeString(head.operation.rawValue)
            writer.writeKey("path", isFirst: false)
            writer.writeString(head.path.description)
            writer.writeKey("origin", isFirst: false)
            writer.append(head.origin?.json ?? Array("null".utf8))
            if case .bulk = content {
                writer.writeKey("bulk", isFirst: false)
                writer.write(.bool(true))
            }
            writer.writeKey("changes", isFirst: false)
            writer.append(ChangeCodec.encode(changes))
        case .part(let changes):
            writer.writeKey("changes", isFirst: false)
            writer.append(ChangeCodec.encode(changes))
        case .end(let parts):
            writer.writeKey("parts", isFirst: false)
            writer.writeInteger(Int64(parts))
        }
        writer.endObject()
        return writer.bytes
    }

    /// - Parameter number: the line's, for errors.
    public init(_ text: [UInt8], number: Int) throws(ReplayError) {
        guard let members = RawJSON(text).members else { throw .badLine(number, reason: "it is no JSON object") }
        var found: [String: RawJSON] = [:]
        for (key, value) in members { found[key] = value }
        guard let source = found["source"]?.string, let seq = found["seq"]?.integer, seq > 0 else {
            throw .badLine(number, reason: "it has no \"source\" and \"seq\": it is no line of 'replay log'")
        }
        self.source = source
        self.seq = seq
        if let parts = found["parts"]?.integer {
            content = .end(parts: Int(parts))
            return
        }
        let changes: [Change]
        do throws(JSONError) {
            changes = try ChangeCodec.decode(found["changes"]?.text ?? [])
        } catch {
            throw .badLine(number, reason: "its changes can't be read: \(error)")
        }
        guard let name = found["op"]?.string else {
            content = .part(changes)
            return
        }
        guard let operation = Tree.Operation(rawValue: name) else {
            throw .badLine(number, reason: "\"\(name)\" is no operation")
        }
        let origin = found["origin"].flatMap { $0.isNull ? nil : Origin(json: $0.text) }
        let head = Head(
            operation: operation, path: Path(splitting: found["path"]?.string ?? "/"),
            committedAt: found["committedAt"]?.string ?? "", origin: origin)
        content = found["bulk"]?.bool == true ? .bulk(head, changes) : .entry(head, changes)
    }
}
