import JSONText
public import Runtime
import Tree

/// Reads the members that the definitions of sinks have in common, and notes every mistake.
struct SinkDefinitionReader {
    private(set) var problems: [DefinitionError.Problem] = []
    /// The member of the feed's definition that is being read, such as `nats`.
    private let part: String
    private let position: SourcePosition
    private let members: [String: SourceValue]
    /// Whether the value is an object. If not, it has no members to read.
    let isObject: Bool

    init(_ value: SourceValue, part: String, allowed: [String]) {
        self.part = part
        position = value.position
        var found: [String: SourceValue] = [:]
        if case .object(let members) = value.kind {
            isObject = true
            for member in members {
                found[member.key] = member.value
                if !allowed.contains(member.key) {
                    problems.append(
                        .init(
                            position: member.position, part: "\(part).\(member.key)",
                            reason: "is unknown here; known are \(allowed.joined(separator: ", "))"))
                }
            }
        } else {
            isObject = false
            problems.append(
                .init(
                    position: value.position, part: part, reason: "this should be an object, but is \(value.kindName)"))
        }
        members = found
    }

    mutating func note(_ name: String, _ reason: String) {
        problems.append(.init(position: members[name]?.position ?? position, part: "\(part).\(name)", reason: reason))
    }

    func has(_ name: String) -> Bool { members[name] != nil }

    /// Returns a string, or nil if it is missing or invalid. Notes a missing string if `reason` is given.
    mutating func text(_ name: String, orMissing reason: String? = nil) -> String? {
        guard let value = members[name] else {
            if let reason { note(name, "is missing: \(reason)") }
            return nil
        }
        guard case .string(let text) = value.kind else {
            note(name, "this should be a string, but is \(value.kindName)")
            return nil
        }
        guard !text.isEmpty, text.utf8.count <= Self.maxTextBytes, !text.utf8.contains(where: { $0 < 0x20 }) else {
            note(name, "this should be a line of 1 to \(Self.maxTextBytes) bytes")
            return nil
        }
        return text
    }

    /// Returns the strings of a member that is a string or an array of strings.
    mutating func texts(_ name: String, orMissing reason: String) -> [String] {
        guard case .array(let elements)? = members[name]?.kind else {
            return text(name, orMissing: reason).map { [$0] } ?? []
        }
        var texts: [String] = []
        for element in elements {
            if case .string(let text) = element.kind, !text.isEmpty { texts.append(text) }
        }
        if texts.count != elements.count || texts.isEmpty || texts.count > Self.maxServers {
            note(name, "this should be 1 to \(Self.maxServers) strings")
        }
        return texts
    }

    mutating func secret(_ name: String) -> SinkSecret? {
        guard let value = members[name] else { return nil }
        guard case .string(let text) = value.kind else {
            note(name, "this should be a string, but is \(value.kindName)")
            return nil
        }
        let secret = SinkSecret(text)
        if let fault = secret.fault { note(name, fault) }
        // PostgreSQL's functions cannot read a definition that contains U+0000.
        if text.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) { note(name, "this has control characters") }
        return secret
    }

    /// Returns the reference to an environment variable, for values that only the gateway's operators may choose.
    mutating func variable(_ name: String, holding what: String) -> SinkSecret? {
        guard let secret = secret(name) else { return nil }
        if case .variable = secret { return secret }
        note(name, "this should be env:NAME, an environment variable of the gateway that holds \(what)")
        return nil
    }

    mutating func number(_ name: String, in range: ClosedRange<Int64>, default standard: Int64) -> Int64 {
        guard let value = members[name] else { return standard }
        if case .number(let text) = value.kind, let number = Int64(text), range.contains(number) { return number }
        note(name, "this should be a whole number from \(range.lowerBound) to \(range.upperBound)")
        return standard
    }

    mutating func duration(
        _ name: String, in range: ClosedRange<Milliseconds>, _ form: DefinitionForm, default standard: Milliseconds
    ) -> Milliseconds {
        guard let value = members[form.member(name)] else { return standard }
        if let time = form.milliseconds(value, in: range) { return time }
        note(form.member(name), form.wanted(in: range))
        return standard
    }

    /// Returns the members of a nested object as strings. Numbers and booleans are converted as written.
    mutating func settings(_ name: String) -> [(key: String, text: String)] {
        guard let value = members[name] else { return [] }
        guard case .object(let parts) = value.kind else {
            note(name, "this should be an object, but is \(value.kindName)")
            return []
        }
        var settings: [(key: String, text: String)] = []
        for part in parts {
            switch part.value.kind {
            case .string(let text): settings.append((part.key, text))
            case .number(let text): settings.append((part.key, text))
            case .bool(let flag): settings.append((part.key, flag ? "true" : "false"))
            default: note("\(name).\(part.key)", "this should be a string, a number or a boolean")
            }
        }
        return settings
    }

    private static let maxTextBytes = 1_000
    static let maxServers = 20
}

/// How many messages a sink sends at once, and how long it waits.
public struct SinkPace: Sendable, Equatable {
    /// The maximum number of messages in one delivery.
    public var batch = 100
    /// The maximum number of deliveries in flight.
    public var concurrency = 4
    /// The timeout of one message.
    public var timeoutMilliseconds: Milliseconds = 10_000

    public init() {}

    static func members(_ form: DefinitionForm) -> [String] { ["batch", "concurrency", form.member("timeout")] }

    init(_ reader: inout SinkDefinitionReader, _ form: DefinitionForm) {
        batch = Int(reader.number("batch", in: 1...1_000, default: 100))
        concurrency = Int(reader.number("concurrency", in: 1...64, default: 4))
        timeoutMilliseconds = reader.duration("timeout", in: 100...300_000, form, default: 10_000)
    }

    func write(to writer: inout JSONWriter, as form: DefinitionForm) {
        writer.writeKey("batch", isFirst: false)
        writer.writeInteger(Int64(batch))
        writer.writeKey("concurrency", isFirst: false)
        writer.writeInteger(Int64(concurrency))
        writer.writeDuration("timeout", timeoutMilliseconds, as: form)
    }

    /// The maximum duration of a delivery: messages are started for one timeout, and the last of them may take another. Connecting,
    /// or giving up a connection that accepts no bytes, may add to that.
    var deliveryMilliseconds: Milliseconds { 2 * timeoutMilliseconds + 10_000 }
}

/// A form of a feed's definition as JSON. The forms differ in durations and secrets.
public enum DefinitionForm: Sendable {
    /// The form of requests, files and answers: `"ack_deadline": "30s"`. Secrets are written as `(set)`.
    case shown
    /// The form in the database: `"ack_deadline_ms": 30000`, which gateways of earlier versions read as well, and with secrets.
    case stored

    /// The name of a member that is a duration, such as `ack_deadline`.
    func member(_ name: String) -> String { self == .stored ? "\(name)_ms" : name }

    /// Reads a duration. Returns nil if the value is not a duration or out of range.
    func milliseconds(_ value: SourceValue, in range: ClosedRange<Milliseconds>) -> Milliseconds? {
        let span: Milliseconds?
        switch (self, value.kind) {
        case (.stored, .number(let text)): span = Milliseconds(text)
        case (.shown, .string(let text)): span = TimeSpan.milliseconds(text)
        default: span = nil
        }
        return span.flatMap { range.contains($0) ? $0 : nil }
    }

    /// Returns a sentence for users about the values that `milliseconds(_:in:)` accepts.
    func wanted(in range: ClosedRange<Milliseconds>) -> String {
        switch self {
        case .stored: "this should be a whole number from \(range.lowerBound) to \(range.upperBound)"
        case .shown:
            "this should be a duration such as \"30s\", from \(TimeSpan.text(range.lowerBound)) to \(TimeSpan.text(range.upperBound))"
        }
    }
}

extension JSONWriter {
    /// Writes a member whose value is a duration.
    mutating func writeDuration(_ name: String, _ time: Milliseconds, as form: DefinitionForm, isFirst: Bool = false) {
        writeKey(form.member(name), isFirst: isFirst)
        switch form {
        case .stored: writeInteger(time)
        case .shown: writeString(TimeSpan.text(time))
        }
    }
}

/// Extracts the host from a sink's address.
enum SinkHost {
    /// Returns the name or address in `nats://host:port`, `host:port` or `[::1]:port`. Returns the whole text for any other format,
    /// which no configured exception matches.
    static func name(ofServer text: String) -> String {
        var rest = text[...]
        if let scheme = rest.firstRange(of: "://") { rest = rest[scheme.upperBound...] }
        if rest.first == "[" {
            guard let end = rest.firstIndex(of: "]") else { return text }
            let after = rest[rest.index(after: end)...]
            return after.isEmpty || after.first == ":" ? String(rest[rest.index(after: rest.startIndex)..<end]) : text
        }
        guard let colon = rest.firstIndex(of: ":") else { return String(rest) }
        // With a second colon, libraries differ on where the port begins.
        return rest[rest.index(after: colon)...].contains(":") ? text : String(rest[..<colon])
    }
}
