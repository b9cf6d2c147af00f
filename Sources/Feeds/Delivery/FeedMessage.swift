public import LogStore
import Runtime
public import Tree

/// A message of a feed, as consumers, webhooks and sinks receive it, without the attempt number. Its values share memory with the tree.
public final class FeedMessage: Sendable {
    /// The content of a message.
    enum Content: Sendable {
        case change(Change)
        /// A stored message: the JSON object without the attempt number.
        case stored([UInt8])
    }

    /// The change of a record.
    struct Change: Sendable {
        let path: Path
        /// The names of the captures, and the captured keys.
        let captures: [String]
        let keys: [Key]
        /// The operation in the log, or `snapshot`.
        let operation: String
        let event: FeedDefinition.Event
        /// The values that the definition includes; nil for the others.
        let value: Node?
        let old: Node?
        let record: Node?
        let committedAt: Milliseconds
        let author: EntryAuthor
    }

    public let position: FeedPosition
    /// The captured keys, joined by `/`.
    public let key: String
    let content: Content

    /// The approximate memory of the waiting message in bytes.
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

    /// Returns the message as JSON.
    ///
    /// - Parameters:
    ///   - namespace: The namespace's name, for the id.
    ///   - attempt: The number of the attempt, or nil for the stored form.
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

    /// Writes the object without its closing brace.
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
        writer.raw(",\"auth\":")
        change.author.write(&writer)
    }
}

extension Node {
    /// The approximate memory of the value in bytes. Small values are counted exactly, larger ones are
    /// extrapolated from their first rows.
    public var estimatedBytes: Int {
        guard case .branch = self else { return 64 + textBytes }
        var left = 256
        let texts = textBytes(&left)
        let counted = max(1, 256 - left)
        let rows = rowCount
        // The estimate may be far too high. The bound keeps sums of estimates from overflowing.
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
