internal import HTTPClient
public import JSONText
internal import Runtime

extension WebhookDefinition {
    /// Reads the member `webhook` of a feed's definition, and notes every mistake.
    ///
    /// - Parameter part: The path of the member in the definition, for error messages.
    /// - Returns: Nil if there was a mistake.
    public static func read(
        _ value: SourceValue, in form: DefinitionForm = .shown, part: String = "webhook",
        problems: inout [DefinitionError.Problem]
    ) -> WebhookDefinition? {
        var reader = WebhookReader(part: part, form: form)
        let definition = reader.definition(value)
        problems += reader.problems
        return reader.problems.isEmpty ? definition : nil
    }
}

/// Builds a webhook's definition from a JSON value.
private struct WebhookReader {
    let part: String
    let form: DefinitionForm
    private(set) var problems: [DefinitionError.Problem] = []
    private let known: [String]

    init(part: String, form: DefinitionForm) {
        self.part = part
        self.form = form
        known = [
            "url", "secrets", "headers", "batch", "concurrency", form.member("timeout"),
            form.member("connect_timeout"), "format",
        ]
    }

    private mutating func note(_ position: SourcePosition, _ member: String, _ reason: String) {
        problems.append(.init(position: position, part: member.isEmpty ? part : "\(part).\(member)", reason: reason))
    }

    mutating func definition(_ value: SourceValue) -> WebhookDefinition? {
        guard let members = object(value) else { return nil }
        let url = url(members["url"], value.position)
        let secrets = secrets(members["secrets"], value.position)
        let format = format(members["format"])
        let headers = headers(members["headers"], format)
        let batch = number(members["batch"], "batch", WebhookDefinition.batchRange) ?? WebhookDefinition.defaultBatch
        if format == .firebase, batch > 1, let position = members["batch"]?.position {
            note(position, "batch", "should be 1: a request in the format firebase has one event")
        }
        let concurrency =
            number(members["concurrency"], "concurrency", WebhookDefinition.concurrencyRange)
            ?? WebhookDefinition.defaultConcurrency
        let range = WebhookDefinition.timeoutRange
        let timeout =
            duration(members, "timeout", range) ?? WebhookDefinition.defaultTimeoutMilliseconds
        let connectTimeout =
            duration(members, "connect_timeout", range)
            ?? min(WebhookDefinition.defaultConnectTimeoutMilliseconds, timeout)
        let member = form.member("connect_timeout")
        if let position = members[member]?.position, connectTimeout > timeout {
            note(position, member, "is part of \(form.member("timeout")), and can't be longer")
        }
        return WebhookDefinition(
            url: url, secrets: secrets, headers: headers, batch: batch, concurrency: concurrency,
            timeoutMilliseconds: timeout, connectTimeoutMilliseconds: connectTimeout, format: format)
    }

    // MARK: Members

    private mutating func url(_ value: SourceValue?, _ position: SourcePosition) -> String {
        guard let value else {
            note(position, "url", "is missing: give the address of the endpoint, such as https://example.com/hooks")
            return ""
        }
        guard let text = text(value, "url") else { return "" }
        let isPlain = text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }
        if text.utf8.count > WebhookDefinition.maxURLBytes {
            note(value.position, "url", "is longer than \(WebhookDefinition.maxURLBytes) bytes")
        } else if !isPlain || !text.contains("://") {
            note(value.position, "url", "is not an address such as https://example.com/hooks (other characters as %XX)")
        } else if let url = ClientURL(text), ["https", "http"].contains(url.scheme) {
            if url.hasCredentials { note(value.position, "url", "holds a name or password: put it into headers") }
        } else {
            note(value.position, "url", "must begin with https:// (or http:// for allowed private addresses)")
        }
        return text
    }

    private mutating func secrets(_ value: SourceValue?, _ position: SourcePosition) -> [SinkSecret] {
        let most = WebhookDefinition.maxSecrets
        guard let value else {
            note(
                position, "secrets",
                "are missing: give an array of secrets that sign the messages, such as [\"env:\(SinkSecret.variablePrefix)ORDERS\"]"
            )
            return []
        }
        guard case .array(let elements) = value.kind, (1...most).contains(elements.count) else {
            note(value.position, "secrets", "this should be an array of one to \(most) secrets, the newest first")
            return []
        }
        var found: [SinkSecret] = []
        for (index, element) in elements.enumerated() {
            let member = "secrets[\(index)]"
            guard let secret = secret(element, member) else { continue }
            if case .text(let text) = secret {
                do throws(WebhookSignature.BadSecret) { _ = try WebhookSignature.key(text.revealed()) } catch {
                    note(element.position, member, error.reason)
                }
            }
            if found.contains(secret) { note(element.position, member, "is listed twice") }
            found.append(secret)
        }
        return found
    }

    private mutating func headers(
        _ value: SourceValue?, _ format: WebhookDefinition.Format
    ) -> [WebhookDefinition.Header] {
        guard let value else { return [] }
        guard case .object(let members) = value.kind, members.count <= WebhookDefinition.maxHeaders else {
            note(value.position, "headers", "this should be an object of up to \(WebhookDefinition.maxHeaders) headers")
            return []
        }
        var seen: Set<String> = []
        var found: [WebhookDefinition.Header] = []
        for member in members {
            let name = "headers.\(member.key)"
            let isToken = member.key.utf8.allSatisfy { Self.tokenBytes.contains($0) }
            if member.key.isEmpty || !isToken || member.key.utf8.count > 128 {
                note(
                    member.position, "headers",
                    "a header's name has 1 to 128 letters, digits, and - _ . ! # $ % & ' * + ^ ` | ~")
                continue
            }
            if WebhookDefinition.isOurs(member.key, in: format) {
                note(member.position, name, "is reserved for Pathmirror")
            }
            if !seen.insert(member.key.lowercased()).inserted { note(member.position, name, "is listed twice") }
            guard let text = secret(member.value, name) else { continue }
            if case .text(let given) = text, !WebhookDefinition.isHeaderValue(given.revealed()) {
                note(
                    member.value.position, name,
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
        let known = WebhookDefinition.Format.allCases.map(\.rawValue).joined(separator: ", ")
        note(value.position, "format", "this should be one of \(known)")
        return .message
    }

    // MARK: Values

    private mutating func object(_ value: SourceValue) -> [String: SourceValue]? {
        guard case .object(let members) = value.kind else {
            note(value.position, "", "this should be an object, but is \(value.kindName)")
            return nil
        }
        for member in members where !known.contains(member.key) {
            note(member.position, member.key, "is unknown here; known are \(known.joined(separator: ", "))")
        }
        return Dictionary(members.map { ($0.key, $0.value) }) { first, _ in first }
    }

    private mutating func text(_ value: SourceValue, _ member: String) -> String? {
        if case .string(let text) = value.kind { return text }
        note(value.position, member, "this should be a string, but is \(value.kindName)")
        return nil
    }

    private mutating func secret(_ value: SourceValue, _ member: String) -> SinkSecret? {
        guard let text = text(value, member) else { return nil }
        let secret = SinkSecret(text)
        guard let fault = secret.fault else { return secret }
        note(value.position, member, fault)
        return nil
    }

    private mutating func duration(
        _ members: [String: SourceValue], _ name: String, _ range: ClosedRange<Milliseconds>
    ) -> Milliseconds? {
        guard let value = members[form.member(name)] else { return nil }
        if let time = form.milliseconds(value, in: range) { return time }
        note(value.position, form.member(name), form.wanted(in: range))
        return nil
    }

    private mutating func number(_ value: SourceValue?, _ member: String, _ range: ClosedRange<Int>) -> Int? {
        guard let value else { return nil }
        if case .number(let text) = value.kind, let number = Int(text), range.contains(number) { return number }
        note(value.position, member, "this should be a whole number from \(range.lowerBound) to \(range.upperBound)")
        return nil
    }
}
