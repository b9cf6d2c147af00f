/// The subject of each message: `orders.{key}`, with what a message says in place of `{key}`, `{feed}` and `{namespace}`.
public struct NATSSubject: Sendable, Equatable {
    enum Part: Sendable, Equatable {
        case text(String)
        case key
        case feed
        case namespace
    }

    let parts: [Part]
    /// As it was written.
    public let template: String

    private static let names: [String: Part] = ["key": .key, "feed": .feed, "namespace": .namespace]

    /// - Throws: the end of a sentence that says what is wrong.
    init(_ template: String) throws(SinkError) {
        var parts: [Part] = []
        var rest = template[...]
        while let first = rest.first {
            if first == "{" {
                guard let end = rest.firstIndex(of: "}"), let part = Self.names[String(rest[..<end].dropFirst())] else {
                    throw SinkError("has braces around something else than key, feed or namespace")
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
        guard case .text(let beginning)? = parts.first else { throw SinkError("should begin with a name of its own") }
        guard !beginning.hasPrefix("$"), !beginning.hasPrefix("_INBOX") else {
            throw SinkError("begins like the subjects that NATS has for itself")
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
            // Captured keys are separated as the subject's names are.
            case .key:
                // At the byte: a mark that begins a name is one character with the / before it.
                key.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
                    .map { Self.name(Substring($0)) }.joined(separator: ".")
            case .feed: Self.name(feed[...])
            case .namespace: Self.name(namespace[...])
            }
        }.joined()
    }

    /// A text as one name of a subject: what means something there is written as `%` and two hexadecimal digits; no text at all is
    /// `_`.
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
