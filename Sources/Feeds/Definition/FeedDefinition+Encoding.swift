import Tree

extension FeedDefinition {
    /// The operations that change data.
    static let allOperations = Tree.Operation.allCases.filter { $0 != .rules }

    /// The definition as JSON, complete: with what was left out, in a fixed order, so that equal definitions have equal texts.
    ///
    /// - Parameter secrets: whether secrets are in it; else `"(set)"` stands for them.
    public func json(secrets: Bool) -> [UInt8] {
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
        writer.writeKey("first_ms", isFirst: true)
        writer.writeInteger(firstBackoffMilliseconds)
        writer.writeKey("max_ms", isFirst: false)
        writer.writeInteger(maxBackoffMilliseconds)
        writer.endObject()
        writer.writeKey("ack_deadline_ms", isFirst: false)
        writer.writeInteger(ackDeadlineMilliseconds)
        writer.writeKey("retention", isFirst: false)
        writer.writeString(retentionText)
        writer.writeKey("when_retention_ends", isFirst: false)
        writer.writeString(retentionPolicy.rawValue)
        destination?.write(&writer, secrets: secrets)
        writer.endObject()
        return writer.bytes
    }

    private var retentionText: String {
        for (unit, seconds) in [("d", Int64(86_400)), ("h", 3_600), ("m", 60)] where retentionSeconds % seconds == 0 {
            return "\(retentionSeconds / seconds)\(unit)"
        }
        return "\(retentionSeconds)s"
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
