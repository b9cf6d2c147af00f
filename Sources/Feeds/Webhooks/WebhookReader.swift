internal import HTTPClient
public import JSONText
internal import Runtime

extension WebhookDefinition {
    /// Reads the member `webhook` of a feed's definition, and notes every mistake on the way.
    ///
    /// - Parameter part: where it stands in the definition, for messages.
    /// - Returns: nil where there was a mistake.
    public static func read(
        _ value: SourceValue, part: String = "webhook", problems: inout [DefinitionError.Problem]
    ) -> WebhookDefinition? {
        var reader = WebhookReader(part: part)
        let definition = reader.definition(value)
        problems += reader.problems
        return reader.problems.isEmpty ? definition : nil
    }
}

/// Makes a webhook's definition out of a JSON value.
private struct WebhookReader {
    let part: String
    private(set) var problems: [DefinitionError.Problem] = []
    private static let members = [
        "url", "secrets", "headers", "batch", "concurrency", "timeout_ms", "connect_timeout_ms", "format",
    ]

    init(part: String) { self.part = part }

    private mutating func note(_ place: SourcePlace, _ member: String, _ reason: String) {
        problems.append(.init(place: place, part: member.isEmpty ? part : "\(part).\(member)", reason: reason))
    }

    mutating func definition(_ value: SourceValue) -> WebhookDefinition? {
        guard let members = object(value) else { return nil }
        let url = url(members["url"], value.place)
        let secrets = secrets(members["secrets"], value.place)
        let headers = headers(members["headers"])
        let batch = number(members["batch"], "batch", WebhookDefinition.batchRange) ?? WebhookDefinition.defaultBatch
        let concurrency =
            number(members["concurrency"], "concurrency", WebhookDefinition.concurrencyRange)
            ?? WebhookDefinition.defaultConcurrency
        let range = WebhookDefinition.timeoutRange
        let timeout =
            number(members["timeout_ms"], "timeout_ms", range).map { Milliseconds($0) }
            ?? WebhookDefinition.defaultTimeoutMilliseconds
        let connectTimeout =
            number(members["connect_timeout_ms"], "connect_timeout_ms", range).map { Milliseconds($0) }
            ?? min(WebhookDefinition.defaultConnectTimeoutMilliseconds, timeout)
        if let place = members["connect_timeout_ms"]?.place, connectTimeout > timeout {
            note(place, "connect_timeout_ms", "is part of timeout_ms, and can't be longer")
        }
        return WebhookDefinition(
            url: url, secrets: secrets, headers: headers, batch: batch, concurrency: concurrency,
            timeoutMilliseconds: timeout, connectTimeoutMilliseconds: connectTimeout, format: format(members["format"]))
    }

    // MARK: Parts

    private mutating func url(_ value: SourceValue?, _ place: SourcePlace) -> String {
        guard let value else {
            note(place, "url", "is missing: it says where messages are sent, such as https://example.com/hooks")
            return ""
        }
        guard let text = text(value, "url") else { return "" }
        let isPlain = text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }
        if text.utf8.count > WebhookDefinition.maxURLBytes {
            note(value.place, "url", "is longer than \(WebhookDefinition.maxURLBytes) bytes")
        } else if !isPlain || !text.contains("://") {
            note(value.place, "url", "is no address, such as https://example.com/hooks (other characters as %XX)")
        } else if let url = ClientURL(text), ["https", "http"].contains(url.scheme) {
            if url.hasCredentials { note(value.place, "url", "holds a name or password: put it into headers") }
        } else {
            note(value.place, "url", "is no address that begins with https:// (or http://, for allowed private ones)")
        }
        return text
    }

    private mutating func secrets(_ value: SourceValue?, _ place: SourcePlace) -> [HiddenText] {
        let most = WebhookDefinition.maxSecrets
        guard let value else {
            note(
                place, "secrets",
                "are missing: an array of what messages are signed with, such as [\"env:HOOK_SECRET\"]")
            return []
        }
        guard case .array(let elements) = value.kind, (1...most).contains(elements.count) else {
            note(value.place, "secrets", "this should be an array of one to \(most) secrets, the newest first")
            return []
        }
        var found: [HiddenText] = []
        for (index, element) in elements.enumerated() {
            let member = "secrets[\(index)]"
            guard let secret = hidden(element, member) else { continue }
            if case .given(let text) = secret {
                do throws(WebhookSignature.BadSecret) { _ = try WebhookSignature.key(text.revealed()) } catch {
                    note(element.place, member, error.reason)
                }
            }
            if found.contains(secret) { note(element.place, member, "is there twice") }
            found.append(secret)
        }
        return found
    }

    private mutating func headers(_ value: SourceValue?) -> [WebhookDefinition.Header] {
        guard let value else { return [] }
        guard case .object(let members) = value.kind, members.count <= WebhookDefinition.maxHeaders else {
            note(value.place, "headers", "this should be an object of up to \(WebhookDefinition.maxHeaders) headers")
            return []
        }
        var seen: Set<String> = []
        var found: [WebhookDefinition.Header] = []
        for member in members {
            let name = "headers.\(member.key)"
            let isToken = member.key.utf8.allSatisfy { Self.tokenBytes.contains($0) }
            if member.key.isEmpty || !isToken || member.key.utf8.count > 128 {
                note(
                    member.place, "headers",
                    "a header's name has 1 to 128 letters, digits, and - _ . ! # $ % & ' * + ^ ` | ~")
                continue
            }
            if WebhookDefinition.isOurs(member.key) { note(member.place, name, "is Pathmirror's own to set") }
            if !seen.insert(member.key.lowercased()).inserted { note(member.place, name, "is there twice") }
            guard let text = hidden(member.value, name) else { continue }
            if case .given(let given) = text, !WebhookDefinition.isHeaderValue(given.revealed()) {
                note(
                    member.value.place, name,
                    "a header has no control characters, and at most \(WebhookDefinition.maxHeaderBytes) bytes")
            }
            found.append(.init(name: member.key, value: text))
        }
        return found
    }

    private static let tokenBytes = Set(
        "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ".utf8)

    private mutating func format(_ value: SourceValue?) -> WebhookDefinition.Format {
        guard let value, let text = text(value, "format") else { return .message }
        if let format = WebhookDefinition.Format(rawValue: text) { return format }
        let known = WebhookDefinition.Format.allCases.map(\.rawValue).joined(separator: " or ")
        note(value.place, "format", "this should be \(known)")
        return .message
    }

    // MARK: Values

    private mutating func object(_ value: SourceValue) -> [String: SourceValue]? {
        guard case .object(let members) = value.kind else {
            note(value.place, "", "this should be an object, but is \(value.kindName)")
            return nil
        }
        for member in members where !Self.members.contains(member.key) {
            note(member.place, member.key, "is unknown here; known are \(Self.members.joined(separator: ", "))")
        }
        return Dictionary(members.map { ($0.key, $0.value) }) { first, _ in first }
    }

    private mutating func text(_ value: SourceValue, _ member: String) -> String? {
        if case .string(let text) = value.kind { return text }
        note(value.place, member, "this should be a string, but is \(value.kindName)")
        return nil
    }

    private mutating func hidden(_ value: SourceValue, _ member: String) -> HiddenText? {
        guard let text = text(value, member) else { return nil }
        if text == HiddenText.shown {
            note(
                value.place, member,
                "\(HiddenText.shown) only stands for what is hidden: give the text itself, or env:NAME")
            return nil
        }
        if case .environment(let name) = HiddenText(text), !Self.isVariable(name) {
            note(value.place, member, "env: needs the name of an environment variable")
            return nil
        }
        return HiddenText(text)
    }

    private static func isVariable(_ name: String) -> Bool {
        !name.isEmpty && name.utf8.count <= 128 && name.first?.isNumber == false
            && name.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"):
                    true
                default: false
                }
            }
    }

    private mutating func number(_ value: SourceValue?, _ member: String, _ range: ClosedRange<Int>) -> Int? {
        guard let value else { return nil }
        if case .number(let text) = value.kind, let number = Int(text), range.contains(number) { return number }
        note(value.place, member, "this should be a whole number from \(range.lowerBound) to \(range.upperBound)")
        return nil
    }
}
