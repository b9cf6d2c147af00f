import Feeds
import Tree

/// The bodies by which another gateway is asked the same. All durations are milliseconds.
extension FeedBodies.Pull {
    var forwarded: [UInt8] {
        var writer = JSONWriter(form: .plain)
        writer.raw("{\"max\":")
        writer.writeInteger(Int64(most))
        writer.raw(",\"wait_ms\":")
        writer.writeInteger(waitMilliseconds)
        writer.raw(",\"consumer\":")
        writer.writeString(consumer)
        if let mostHeld {
            writer.raw(",\"max_held\":")
            writer.writeInteger(Int64(mostHeld))
        }
        if resumes { writer.raw(",\"resume\":true") }
        if let after {
            writer.raw(",\"after\":")
            writer.writeString(after)
        }
        writer.raw("}")
        return writer.bytes
    }
}

extension FeedBodies.Settlement {
    var forwarded: [UInt8] {
        var writer = JSONWriter(form: .plain)
        writer.raw("{\"ids\":[")
        for (index, id) in ids.enumerated() {
            if index > 0 { writer.raw(",") }
            writer.writeString(id)
        }
        writer.raw("]")
        if let consumer {
            writer.raw(",\"consumer\":")
            writer.writeString(consumer)
        }
        switch settlement {
        case .acknowledge: break
        case .reject(let delay, let reason):
            if let delay { Self.write(delay, &writer) }
            writer.raw(",\"reason\":")
            writer.writeString(reason)
        case .extend(let time): Self.write(time, &writer)
        }
        writer.raw("}")
        return writer.bytes
    }

    private static func write(_ delay: Int64, _ writer: inout JSONWriter) {
        writer.raw(",\"delay_ms\":")
        writer.writeInteger(delay)
    }
}
