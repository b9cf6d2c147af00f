import Runtime
public import Tree

/// A message of a feed: what consumers, webhooks and sinks get, but for the attempt. Its values share their memory with the tree.
public final class FeedMessage: Sendable {
    /// What a message says.
    enum Content: Sendable {
        case change(Change)
        /// As it was stored: the JSON object without its attempt.
        case stored([UInt8])
    }

    /// What a message says of a record.
    struct Change: Sendable {
        let path: Path
        /// The names of the captures, and the keys that they stand for.
        let captures: [String]
        let keys: [Key]
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
    let estimatedBytes: Int

    init(position: FeedPosition, key: String, content: Content) {
        self.position = position
        self.key = key
        self.content = content
        estimatedBytes =
            switch content {
            case .stored(let json): 200 + json.count
            case .change(let change):
                300 + (change.value?.estimatedBytes ?? 0) + (change.old?.estimatedBytes ?? 0)
                    + (change.record?.estimatedBytes ?? 0)
            }
    }

    /// The message as JSON.
    ///
    /// - Parameters:
    ///   - namespace: for the id.
    ///   - attempt: the delivery's number; nil for the form that is stored.
    public func json(namespace: String, attempt: Int?) -> [UInt8] {
        var writer = JSONWriter(form: .plain, reserving: 512)
        write(namespace: namespace, attempt: attempt, to: &writer)
        return writer.bytes
    }

    /// Writes the message as JSON.
    public func write(namespace: String, attempt: Int?, to writer: inout JSONWriter) {
        switch content {
        case .stored(let json): writer.append(Array(json.dropLast()))
        case .change(let change): write(change, namespace, &writer)
        }
        if let attempt {
            writer.raw(",\"attempt\":")
            writer.writeInteger(Int64(attempt))
        }
        writer.raw("}")
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
        for (index, (capture, key)) in zip(change.captures, change.keys).enumerated() {
            if index > 0 { writer.raw(",") }
            writer.writeString(capture)
            writer.raw(":")
            writer.writeString(key.text)
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

extension Node {
    /// About what the value costs in memory, in bytes: exactly counted for what is small, and else by its first rows.
    public var estimatedBytes: Int {
        guard case .branch = self else { return 64 + textBytes }
        var left = 256
        let texts = textBytes(&left)
        let counted = max(1, 256 - left)
        let rows = rowCount
        // An estimate may be far beyond what there is: sums of it stay numbers.
        return min(64 * rows + (rows > counted ? texts / counted * rows : texts), 1 << 36)
    }

    private var textBytes: Int {
        switch self {
        case .string(let text): text.utf8.count
        case .prioritized(let leaf): leaf.value.textBytes
        default: 0
        }
    }

    private func textBytes(_ left: inout Int) -> Int {
        guard case .branch(let branch) = self else {
            left -= 1
            return textBytes
        }
        var sum = 0
        for entry in branch.children {
            guard left > 0 else { break }
            sum += entry.node.textBytes(&left) + entry.key.text.utf8.count
        }
        return sum
    }
}
