public import JSONText
public import Tree

/// The member `nats` of a feed's definition: the JetStream subject and stream that receive the feed's messages.
public struct NATSDefinition: Sendable, Equatable {
    public enum Credentials: Sendable, Equatable {
        case none
        case password(user: String, SinkSecret)
        case token(SinkSecret)
        /// A variable that holds the name of a credentials file.
        case file(SinkSecret)
    }

    /// The servers as `nats://host:port` or `tls://host:port`.
    public let servers: [String]
    public let subject: NATSSubject
    /// The stream that must store the messages, or nil for any stream that accepts the subject.
    public let stream: String?
    public let credentials: Credentials
    /// A variable that holds the name of a PEM file with the certificate authorities to trust.
    public let authorities: SinkSecret?
    public let pace: SinkPace

    private static let members = ["url", "subject", "stream", "user", "password", "token", "credentials", "ca"]

    /// - Parameters:
    ///   - part: The path of the member in the feed's definition, for error messages.
    ///   - problems: Receives every mistake.
    /// - Returns: Nil if there are mistakes.
    public static func read(
        _ value: SourceValue, in form: DefinitionForm = .shown, part: String = "nats",
        problems: inout [DefinitionError.Problem]
    ) -> NATSDefinition? {
        var reader = SinkDefinitionReader(value, part: part, allowed: members + SinkPace.members(form))
        guard reader.isObject else {
            problems += reader.problems
            return nil
        }
        let servers = reader.texts("url", orMissing: "give the address of NATS, such as nats://localhost:4222")
        for server in servers {
            if let fault = serverFault(server) { reader.note("url", fault) }
        }
        let template = reader.text("subject", orMissing: "give the subject of the messages, such as orders.{key}")
        var subject: NATSSubject?
        if let template {
            do throws(SinkError) { subject = try NATSSubject(template) } catch {
                reader.note("subject", error.description)
            }
        }
        let stream = reader.text("stream")
        if let stream, stream.contains(where: { " .*>/\\".contains($0) }) {
            reader.note("stream", "\"\(stream)\" is not a valid stream name")
        }
        let credentials = credentials(&reader)
        let authorities = reader.variable("ca", holding: "the name of a PEM file")
        let pace = SinkPace(&reader, form)
        problems += reader.problems
        guard reader.problems.isEmpty, let subject else { return nil }
        return NATSDefinition(
            servers: servers, subject: subject, stream: stream, credentials: credentials, authorities: authorities,
            pace: pace)
    }

    private static func serverFault(_ server: String) -> String? {
        guard let scheme = ["nats://", "tls://"].first(where: server.hasPrefix) else {
            return "an address of NATS begins with nats:// or tls://"
        }
        let rest = server.dropFirst(scheme.count)
        // Addresses are visible to all users who may see the definition.
        if rest.contains("@") {
            return "an address must not contain credentials: use user and password, token, or credentials"
        }
        let isPlain = rest.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != 0x2F && $0 != 0x2C }
        return rest.isEmpty || !isPlain ? "an address of NATS is nats://HOST:PORT" : nil
    }

    /// The servers' names or addresses.
    var hosts: [String] { servers.map { SinkHost.name(ofServer: $0) } }

    private static func credentials(_ reader: inout SinkDefinitionReader) -> Credentials {
        let user = reader.text("user")
        let password = reader.secret("password")
        let token = reader.secret("token")
        let file = reader.variable("credentials", holding: "the name of a .creds file")
        if (user == nil) != (password == nil), reader.has("user") != reader.has("password") {
            reader.note(user == nil ? "user" : "password", "user and password go together")
        }
        if [user != nil, token != nil, file != nil].count(where: { $0 }) > 1 {
            reader.note("credentials", "there are several logins: give user and password, or token, or credentials")
        }
        if let user, let password { return .password(user: user, password) }
        if let token { return .token(token) }
        return file.map { .file($0) } ?? .none
    }

    /// Writes the definition with the defaults of omitted members.
    public func write(_ writer: inout JSONWriter, as form: DefinitionForm) {
        writer.beginObject()
        writer.writeKey("url", isFirst: true)
        writer.writeTexts(servers)
        writer.writeMember("subject", subject.template)
        if let stream { writer.writeMember("stream", stream) }
        switch credentials {
        case .none: break
        case .password(let user, let password):
            writer.writeMember("user", user)
            writer.writeMember("password", password.definitionText(showsSecrets: form == .stored))
        case .token(let token): writer.writeMember("token", token.definitionText(showsSecrets: form == .stored))
        case .file(let variable):
            writer.writeMember("credentials", variable.definitionText(showsSecrets: form == .stored))
        }
        if let authorities { writer.writeMember("ca", authorities.definitionText(showsSecrets: form == .stored)) }
        pace.write(to: &writer, as: form)
        writer.endObject()
    }
}

extension JSONWriter {
    mutating func writeMember(_ key: String, _ text: String) {
        writeKey(key, isFirst: false)
        writeString(text)
    }

    /// Writes an array of strings, or a single string if there is only one.
    mutating func writeTexts(_ texts: [String]) {
        if texts.count == 1 { return writeString(texts[0]) }
        raw("[")
        for (index, text) in texts.enumerated() {
            if index > 0 { raw(",") }
            writeString(text)
        }
        raw("]")
    }
}

/// The template for the subject of messages, such as `orders.{key}`. `{key}`, `{feed}` and `{namespace}` stand for the message's values.
public struct NATSSubject: Sendable, Equatable {
    enum Part: Sendable, Equatable {
        case text(String)
        case key
        case feed
        case namespace
    }

    let parts: [Part]
    /// The template text.
    public let template: String

    private static let names: [String: Part] = ["key": .key, "feed": .feed, "namespace": .namespace]

    /// - Throws: An error whose description completes a sentence about the subject.
    init(_ template: String) throws(SinkError) {
        var parts: [Part] = []
        var rest = template[...]
        while let first = rest.first {
            if first == "{" {
                guard let end = rest.firstIndex(of: "}"), let part = Self.names[String(rest[..<end].dropFirst())] else {
                    throw SinkError("has braces around a name other than key, feed or namespace")
                }
                parts.append(part)
                rest = rest[end...].dropFirst()
            } else {
                let text = rest.prefix { $0 != "{" }
                parts.append(.text(String(text)))
                rest = rest.dropFirst(text.count)
            }
        }
        self.parts = parts
        self.template = template
        guard case .text(let beginning)? = parts.first else {
            throw SinkError("should begin with a name outside braces")
        }
        guard !beginning.hasPrefix("$"), !beginning.hasPrefix("_INBOX") else {
            throw SinkError("begins like the subjects that NATS reserves")
        }
        let sample = subject(key: "k", feed: "f", namespace: "n")
        let isPlain = parts.allSatisfy { part in
            guard case .text(let text) = part else { return true }
            return text.utf8.allSatisfy { $0 > 0x20 && $0 != 0x7F && !"*>}".utf8.contains($0) }
        }
        guard isPlain, sample.split(separator: ".", omittingEmptySubsequences: false).allSatisfy({ !$0.isEmpty }) else {
            throw SinkError("should be names with points between them, without spaces, * and >")
        }
    }

    func subject(for message: SinkMessage) -> String {
        subject(key: message.key, feed: message.feed, namespace: message.namespace)
    }

    private func subject(key: String, feed: String, namespace: String) -> String {
        parts.map { part in
            switch part {
            case .text(let text): text
            // Captured keys become separate parts of the subject.
            case .key:
                // Splits bytes instead of characters: a combining mark at the start of a key forms one character with the preceding `/`.
                key.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
                    .map { Self.name(Substring($0)) }.joined(separator: ".")
            case .feed: Self.name(feed[...])
            case .namespace: Self.name(namespace[...])
            }
        }.joined()
    }

    /// Returns a string encoded as one part of a subject. Special bytes become `%` and two hexadecimal digits; an
    /// empty string becomes `_`.
    static func name(_ text: Substring) -> String {
        if text.isEmpty { return "_" }
        let digits = Array("0123456789ABCDEF".utf8)
        var bytes: [UInt8] = []
        for byte in text.utf8 {
            let isPlain = byte > 0x20 && byte != 0x7F && !Self.special.contains(byte)
            bytes += isPlain ? [byte] : [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static let special = Set("%.*>$".utf8)
}
