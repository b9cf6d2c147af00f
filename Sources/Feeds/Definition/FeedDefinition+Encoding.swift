import Runtime
import Tree

extension FeedDefinition {
    /// The operations that change data.
    static let allOperations = Tree.Operation.allCases.filter { $0 != .rules }

    /// The definition as JSON, complete: with what was left out, in a fixed order, so that equal definitions have equal texts.
    ///
    public func json(as form: DefinitionForm) -> [UInt8] {
        var writer = JSONWriter(form: .export, reserving: 512)
        writer.beginObject()
        writer.writeKey("path", isFirst: true)
        writer.writeString(pattern.description)
        writer.writeKey("operations", isFirst: false)
        writer.writeWords(Self.allOperations.filter { operations?.contains($0) ?? true }.map(\.rawValue))
        writer.writeKey("events", isFirst: false)
        writer.writeWords(Event.allCases.filter(events.contains).map(\.rawValue))
        if let filter {
            writer.writeKey("filter", isFirst: false)
            writer.writeString(filter.text)
        }
        writer.writeKey("include", isFirst: false)
        writer.writeWords(Part.allCases.filter(include.contains).map(\.rawValue))
        writer.writeKey("record_depth", isFirst: false)
        writer.writeInteger(Int64(recordDepth))
        writer.writeKey("start", isFirst: false)
        writeStart(&writer)
        for (name, word) in [("order", order.rawValue), ("on_dead", deadPolicy.rawValue)] {
            writer.writeKey(name, isFirst: false)
            writer.writeString(word)
        }
        writer.writeKey("max_attempts", isFirst: false)
        writer.writeInteger(Int64(maxAttempts))
        writer.writeKey("backoff", isFirst: false)
        writer.beginObject()
        writer.writeDuration("first", firstBackoffMilliseconds, as: form, isFirst: true)
        writer.writeDuration("max", maxBackoffMilliseconds, as: form)
        writer.endObject()
        writer.writeDuration("ack_deadline", ackDeadlineMilliseconds, as: form)
        writer.writeKey("retention", isFirst: false)
        writer.writeString(TimeSpan.text(retentionSeconds * 1_000))
        writer.writeKey("when_retention_ends", isFirst: false)
        writer.writeString(retentionPolicy.rawValue)
        destination?.write(&writer, as: form)
        writer.endObject()
        return writer.bytes
    }

    private func writeStart(_ writer: inout JSONWriter) {
        switch start {
        case .now: writer.writeString("now")
        case .beginning: writer.writeString("beginning")
        case .snapshot: writer.writeString("snapshot")
        case .seq(let seq):
            writer.beginObject()
            writer.writeKey("seq", isFirst: true)
            writer.writeInteger(seq)
            writer.endObject()
        case .time(let time):
            writer.beginObject()
            writer.writeKey("time", isFirst: true)
            writer.writeString(time)
            writer.endObject()
        }
    }
}

extension JSONWriter {
    /// A list of texts.
    mutating func writeWords(_ words: [String]) {
        raw("[")
        for (index, word) in words.enumerated() {
            if index > 0 { raw(",") }
            writeString(word)
        }
        raw("]")
    }
}
