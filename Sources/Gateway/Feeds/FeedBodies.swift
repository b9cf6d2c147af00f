import Feeds
import JSONText
import Runtime
import Tree
import Wire

/// Parses the bodies of requests to feeds. Pure.
///
/// Clients state durations with a unit, `"wait": "20s"`. Gateways send each other milliseconds, `"wait_ms": 20000`,
/// which the previous version understands as well: during an update, gateways of both versions forward requests to each
/// other.
enum FeedBodies {
    /// Limits of consumers' requests.
    enum Limits {
        static let pull = 1_000
        static let waitMilliseconds: Int64 = 60_000
        static let ids = 1_000
        static let delayMilliseconds: Int64 = 43_200_000
        static let consumerBytes = 200
        static let idBytes = 200
        /// Maximum size of a body. All valid bodies are far smaller.
        static let bytes = 1 << 20
        static let reasonBytes = 2_000
    }

    /// The parameters of a pull.
    struct Pull: Equatable {
        var most = 100
        var waitMilliseconds: Int64 = 0
        var consumer = ""
        /// Maximum number of messages that the consumer may hold; nil for any number.
        var mostHeld: Int?
        /// Whether the consumer's held messages return to the feed first, except those up to `after`, which are
        /// acknowledged.
        var resumes = false
        var after: String?
    }

    /// - Parameter isForwarded: whether another gateway forwarded the body.
    static func pull(_ bytes: [UInt8], isForwarded: Bool = false) throws(RESTError) -> Pull {
        let known = ["max", "wait", "consumer", "max_held", "resume", "after"]
        var body = try Body(bytes, known: known + (isForwarded ? ["wait_ms"] : []))
        var pull = Pull()
        pull.most = Int(try body.number("max", 0...Int64(Limits.pull)) ?? 100)
        pull.waitMilliseconds = try body.duration("wait", 0...Limits.waitMilliseconds) ?? 0
        pull.consumer = try body.text("consumer", Limits.consumerBytes) ?? ""
        pull.mostHeld = try body.number("max_held", 1...100_000).map { Int($0) }
        pull.resumes = try body.flag("resume") ?? false
        pull.after = try body.text("after", Limits.idBytes)
        return pull
    }

    /// The consumer's results for messages.
    struct Settlement: Equatable {
        let ids: [String]
        let consumer: String?
        let settlement: FeedSettlement
    }

    enum Verb: String {
        case ack, nack, extend
    }

    /// - Parameter isForwarded: whether another gateway forwarded the body.
    static func settlement(
        _ verb: Verb, _ bytes: [UInt8], isForwarded: Bool = false
    ) throws(RESTError) -> Settlement {
        let extra: [String] =
            switch verb {
            case .ack: []
            case .nack: ["delay", "reason"]
            case .extend: ["delay"]
            }
        let known = ["ids", "consumer"] + extra
        var body = try Body(bytes, known: known + (isForwarded && known.contains("delay") ? ["delay_ms"] : []))
        guard let ids = try body.texts("ids", most: Limits.ids) else { throw RESTError(400, "ids is missing") }
        let consumer = try body.text("consumer", Limits.consumerBytes)
        switch verb {
        case .ack: return Settlement(ids: ids, consumer: consumer, settlement: .acknowledge)
        case .nack:
            return Settlement(
                ids: ids, consumer: consumer,
                settlement: .reject(
                    delayMilliseconds: try body.duration("delay", 0...Limits.delayMilliseconds),
                    reason: try body.text("reason", Limits.reasonBytes) ?? "rejected by its consumer"))
        case .extend:
            guard let delay = try body.duration("delay", 0...Limits.delayMilliseconds) else {
                throw RESTError(400, "delay is missing")
            }
            return Settlement(ids: ids, consumer: consumer, settlement: .extend(milliseconds: delay))
        }
    }

    /// Parses the position to which a feed moves.
    static func seek(_ bytes: [UInt8]) throws(RESTError) -> FeedDefinition.Start {
        var body = try Body(bytes, known: ["seq", "time", "to"])
        let seq = try body.number("seq", 0...(.max))
        let time = try body.text("time", 100)
        let target = try body.text("to", 100)
        switch (seq, time, target) {
        case (let seq?, nil, nil): return .seq(seq)
        case (nil, let time?, nil): return .time(time)
        case (nil, nil, "now"): return .now
        case (nil, nil, "beginning"): return .beginning
        case (nil, nil, "snapshot"): return .snapshot
        default:
            throw RESTError(
                400, "Give one of seq, time and to; to is \"beginning\", \"now\" or \"snapshot\"")
        }
    }

    /// A selection of dead letters.
    enum DeadLetters: Equatable {
        case all
        case key(String)
        case ids([String])
    }

    static func deadLetters(_ bytes: [UInt8]) throws(RESTError) -> DeadLetters {
        var body = try Body(bytes, known: ["ids", "key", "all"])
        let ids = try body.texts("ids", most: Limits.ids)
        let key = try body.text("key", 24_000)
        let all = try body.flag("all")
        switch (ids, key, all) {
        case (let ids?, nil, nil): return .ids(ids)
        case (nil, let key?, nil): return .key(key)
        case (nil, nil, true): return .all
        default: throw RESTError(400, "Give one of ids, key and all; all must be true")
        }
    }

    /// The JSON object of a request. An empty body counts as an empty object.
    private struct Body {
        private var members: [String: SourceValue] = [:]

        init(_ bytes: [UInt8], known: [String]) throws(RESTError) {
            guard !bytes.isEmpty else { return }
            let value: SourceValue
            do throws(SourceTextError) {
                value = try SourceText.read(bytes)
            } catch {
                throw RESTError(400, "The body is not JSON: \(error.reason)")
            }
            guard case .object(let members) = value.kind else {
                throw RESTError(400, "The body must be a JSON object")
            }
            for member in members {
                guard known.contains(member.key) else {
                    let shown = String(member.key.prefix(100))
                    throw RESTError(400, "\"\(shown)\" is unknown here; known are \(known.joined(separator: ", "))")
                }
                self.members[member.key] = member.value
            }
        }

        mutating func number(_ name: String, _ range: ClosedRange<Int64>) throws(RESTError) -> Int64? {
            guard let value = members[name] else { return nil }
            guard case .number(let text) = value.kind, let number = Int64(text), range.contains(number) else {
                throw RESTError(
                    400, "\(name) must be a whole number from \(range.lowerBound) to \(range.upperBound)")
            }
            return number
        }

        /// Parses a duration into milliseconds: text, or a number from another gateway.
        mutating func duration(_ name: String, _ range: ClosedRange<Milliseconds>) throws(RESTError) -> Milliseconds? {
            guard let value = members[name] else { return try number("\(name)_ms", range) }
            guard case .string(let text) = value.kind, let time = TimeSpan.milliseconds(text), range.contains(time)
            else {
                let (least, most) = (TimeSpan.text(range.lowerBound), TimeSpan.text(range.upperBound))
                throw RESTError(400, "\(name) must be a duration such as \"5s\", from \(least) to \(most)")
            }
            return time
        }

        mutating func text(_ name: String, _ most: Int) throws(RESTError) -> String? {
            guard let value = members[name] else { return nil }
            guard case .string(let text) = value.kind, text.utf8.count <= most, !text.utf8.contains(0) else {
                throw RESTError(400, "\(name) must be a string of at most \(most) bytes")
            }
            return text
        }

        mutating func flag(_ name: String) throws(RESTError) -> Bool? {
            guard let value = members[name] else { return nil }
            guard case .bool(let flag) = value.kind else { throw RESTError(400, "\(name) must be true or false") }
            return flag
        }

        mutating func texts(_ name: String, most: Int) throws(RESTError) -> [String]? {
            guard let value = members[name] else { return nil }
            let refusal = RESTError(400, "\(name) must be a list of at most \(most) strings")
            guard case .array(let elements) = value.kind, elements.count <= most else { throw refusal }
            var texts: [String] = []
            for element in elements {
                guard case .string(let text) = element.kind, text.utf8.count <= 300 else { throw refusal }
                texts.append(text)
            }
            return texts
        }
    }
}

/// The bodies of forwarded requests. All durations are milliseconds.
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
