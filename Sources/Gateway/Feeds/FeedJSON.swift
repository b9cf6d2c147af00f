import Feeds
import LogStore
import Runtime
import Tree

/// The JSON answers to administrators of feeds. Pure.
enum FeedJSON {
    static func list(_ records: [FeedRecord]) -> [UInt8] {
        var writer = JSONWriter(form: .plain)
        writer.raw("{\"feeds\":[")
        for (index, record) in records.enumerated() {
            if index > 0 { writer.raw(",") }
            writer.raw("{\"name\":")
            writer.writeString(record.name)
            writer.raw(",\"definition\":")
            writer.append(definition(record))
            writer.raw("}")
        }
        writer.raw("]}")
        return writer.bytes
    }

    /// Returns the definition without its secrets.
    static func definition(_ record: FeedRecord) -> [UInt8] {
        (try? FeedDefinition.read(stored: record.definition, name: record.name))?.json(as: .shown) ?? Array("null".utf8)
    }

    static func applied(_ applied: FeedAdministration.Applied, _ name: String, _ warnings: [String]) -> [UInt8] {
        var writer = JSONWriter(form: .plain)
        writer.raw("{\"name\":")
        writer.writeString(name)
        writer.raw(applied.isNew ? ",\"created\":true" : ",\"created\":false")
        writer.raw(applied.isChanged ? ",\"changed\":true" : ",\"changed\":false")
        writer.raw(",\"seq\":")
        writer.writeInteger(applied.seq)
        for (index, warning) in warnings.enumerated() {
            writer.raw(index == 0 ? ",\"warnings\":[" : ",")
            writer.writeString(warning)
        }
        writer.raw(warnings.isEmpty ? "}" : "]}")
        return writer.bytes
    }

    static func dead(_ deadLetters: [FeedDeadLetter]) -> [UInt8] {
        var body = Array("{\"dead\":[".utf8)
        for (index, deadLetter) in deadLetters.enumerated() {
            if index > 0 { body.append(UInt8(ascii: ",")) }
            body += deadLetter.json
        }
        return body + Array("]}".utf8)
    }

    /// - Parameter report: this gateway's own numbers, if it runs the feed.
    static func status(_ status: FeedStatusRecord, _ report: FeedReport?, _ name: String) -> [UInt8] {
        var writer = JSONWriter(form: .plain)
        writer.beginObject()
        var isFirst = true
        func text(_ name: String, _ value: String?) {
            writer.writeKey(name, isFirst: isFirst)
            isFirst = false
            if let value { writer.writeString(value) } else { writer.raw("null") }
        }
        func number(_ name: String, _ value: Int64) {
            writer.writeKey(name, isFirst: isFirst)
            isFirst = false
            writer.writeInteger(value)
        }
        text("name", name)
        text("state", report?.state ?? status.state)
        text("message", report.map(\.message) ?? status.message)
        number("seq", status.seq)
        number("head", status.head)
        number("lag_entries", status.lagEntries)
        writer.writeKey("lag_seconds", isFirst: false)
        writer.write(.double((status.lagSeconds * 1_000).rounded() / 1_000))
        number("pending_messages", report.map { Int64($0.pending) } ?? status.pending)
        number("held_messages", report.map { Int64($0.held) } ?? status.held)
        writer.writeKey("oldest_unacknowledged", isFirst: false)
        if let id = report?.oldestID {
            writer.beginObject()
            writer.writeKey("id", isFirst: true)
            writer.writeString(id)
            writer.writeKey("time", isFirst: false)
            if let time = report?.oldestAt {
                writer.writeString(Timestamp.iso8601(unixMilliseconds: time))
            } else {
                writer.raw("null")
            }
            writer.endObject()
        } else {
            writer.raw("null")
        }
        number("delivered", status.delivered)
        number("acknowledged", status.acknowledged)
        number("redelivered", status.redelivered)
        number("dead_letters", status.deadLetters)
        number("set_aside", status.setAside)
        number("retrying", status.retrying)
        writer.writeKey("consumers", isFirst: false)
        writer.raw("[")
        for (index, consumer) in (report?.consumers ?? []).sorted().enumerated() {
            if index > 0 { writer.raw(",") }
            writer.writeString(consumer)
        }
        writer.raw("]")
        number("consumers_total", Int64(report?.consumerCount ?? 0))
        text("gateway", status.gateway)
        writer.endObject()
        return writer.bytes
    }
}
