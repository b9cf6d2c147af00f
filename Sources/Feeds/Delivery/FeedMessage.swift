import Runtime
import Tree

/// A message of a feed: what consumers, webhooks and sinks get, but for the attempt. Its values share their memory with the tree.
public struct FeedMessage: Sendable {
    /// What a message says.
    enum Content: Sendable {
        case change(Change)
        /// As it was stored: the JSON object without its attempt.
        case stored([UInt8])
    }

    /// What a message says of a record.
    struct Change: Sendable {
        let path: Path
        let captures: [(name: String, key: Key)]
        /// The log's operation, or `snapshot`.
        let operation: String
        let event: FeedDefinition.Event
        /// What the definition includes; the others are nil.
        let value: Node?
        let old: Node?
        let record: Node?
        let committedAt: Milliseconds
    }

    public let position: FeedPosition
    /// The captured keys, joined by `/`.
    public let key: String
    let content: Content

    /// About what the message costs in memory while it waits, in bytes.
    var estimatedBytes: Int {
        switch content {
        case .stored(let json): 200 + json.count
        case .change(let change):
            300 + 64 * ((change.value?.rowCount ?? 0) + (change.old?.rowCount ?? 0) + (change.record?.rowCount ?? 0))
        }
    }

    /// The message as JSON.
    ///
    /// - Parameters:
    ///   - namespace: for the id.
    ///   - attempt: the delivery's number; nil for the form that is stored.
    public func json(namespace: String, attempt: Int?) -> [UInt8] {
        var writer = JSONWriter(form: .plain, reserving: 512)
        switch content {
        case .stored(let json): writer.append(Array(json.dropLast()))
        case .change(let change): write(change, namespace, &writer)
        }
        if let attempt {
            writer.raw(",\"attempt\":")
            writer.writeInteger(Int64(attempt))
        }
        writer.raw("}")
        return writer.bytes
    }

    /// The object, but for its end.
    private func write(_ change: Change, _ namespace: String, _ writer: inout JSONWriter) {
        writer.raw("{\"id\":")
        writer.writeString(position.id(in: namespace))
        writer.raw(",\"seq\":")
        writer.writeInteger(position.seq)
        writer.raw(",\"path\":")
        writer.writeString(change.path.description)
        writer.raw(",\"key\":")
        writer.writeString(key)
        writer.raw(",\"captures\":{")
        for (index, capture) in change.captures.enumerated() {
            if index > 0 { writer.raw(",") }
            writer.writeString(capture.name)
            writer.raw(":")
            writer.writeString(capture.key.text)
        }
        writer.raw("},\"op\":")
        writer.writeString(change.operation)
        writer.raw(",\"event\":")
        writer.writeString(change.event.rawValue)
        if let value = change.value {
            writer.raw(",\"value\":")
            writer.write(value)
        }
        if let old = change.old {
            writer.raw(",\"old\":")
            writer.write(old)
        }
        if let record = change.record {
            writer.raw(",\"record\":")
            writer.write(record)
        }
        writer.raw(",\"time\":")
        writer.writeString(Timestamp.iso8601(unixMilliseconds: change.committedAt))
    }
}
