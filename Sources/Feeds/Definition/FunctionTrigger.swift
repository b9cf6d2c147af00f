internal import Crypto
import JSONText
internal import Rules
internal import Runtime
internal import Tree

/// A database function that the Functions emulator registers at the Realtime Database emulator, by
/// `POST /.settings/functionTriggers.json` (facts: firebase/firebase-tools, `src/emulator/functionsEmulator.ts`). Pure.
public struct FunctionTrigger: Sendable, Equatable {
    /// The name of the function's feed. The function has it as long as its name and region stay the same.
    public let feed: String
    /// The path below which the Functions emulator receives the function's events.
    let target: String
    let pattern: PathPattern
    let kind: FirebaseEvent.Kind
    /// The parts of the pattern of namespaces between its wildcards.
    private let namespaceParts: [String]

    /// The mistake in a registration.
    public struct Mistake: Error, Sendable, Equatable, CustomStringConvertible {
        public let description: String

        init(_ description: String) { self.description = description }
    }

    public static let maxBytes = 64 * 1_024

    /// Reads the body of a registration.
    public init(_ body: [UInt8]) throws(Mistake) {
        guard body.count <= Self.maxBytes else {
            throw Mistake("the registration has at most \(Self.maxBytes) bytes")
        }
        let root: SourceValue
        do throws(SourceTextError) {
            root = try SourceText.read(body)
        } catch {
            throw Mistake(
                "the registration is not valid JSON (line \(error.position.line), column \(error.position.column)): \(error.reason)"
            )
        }
        guard case .object(let members) = root.kind else {
            throw Mistake("the registration must be an object, but is \(root.kindName)")
        }
        func text(_ name: String) throws(Mistake) -> String {
            guard case .string(let text)? = members.first(where: { $0.key == name })?.value.kind else {
                throw Mistake("the registration needs the string \"\(name)\"")
            }
            return text
        }
        let event = try text("event")
        guard let kind = FirebaseEvent.Kind(rawValue: event) else {
            throw Mistake(
                "the event \"\(event.prefix(100))\" is not supported; register functions of the 2nd generation (firebase-functions/v2/database)"
            )
        }
        self.kind = kind
        let (project, key) = try Self.names(in: try text("name"))
        target = "functions/projects/\(project)/triggers/\(key)"
        feed = Self.feedName(key)
        pattern = try Self.pattern(try text("path"))
        namespaceParts = try Self.namespaceParts(try text("namespacePattern"))
    }

    /// Returns whether the function receives events of a namespace.
    public func concerns(_ namespace: String) -> Bool {
        guard namespaceParts.count > 1 else { return namespaceParts == [namespace] }
        var rest = namespace[...]
        for (index, part) in namespaceParts.enumerated() {
            if index == 0 {
                guard rest.hasPrefix(part) else { return false }
                rest = rest.dropFirst(part.count)
            } else if index == namespaceParts.count - 1 {
                return rest.hasSuffix(part)
            } else {
                guard let found = Self.range(of: part, in: rest) else { return false }
                rest = rest[found...]
            }
        }
        return true
    }

    /// The only namespace of the function, or nil if its pattern has a wildcard.
    public var namespace: String? { namespaceParts.count == 1 ? namespaceParts[0] : nil }

    /// Returns the definition of the feed that delivers the function's events.
    ///
    /// - Parameters:
    ///   - emulator: The address of the Functions emulator, `HOST:PORT`.
    ///   - secret: The secret of the webhook.
    ///   - isNew: Whether the namespace was created after the registration, so that all its entries are events.
    public func definition(emulator: String, secret: String, isNew: Bool) -> FeedDefinition {
        var definition = FeedDefinition(name: feed, pattern: pattern)
        definition.include = [.value, .old]
        definition.start = isNew ? .beginning : .now
        switch kind {
        case .created: definition.events = [.created]
        case .updated: definition.events = [.updated]
        case .deleted: definition.events = [.deleted]
        case .written: break
        }
        definition.destination = .webhook(
            WebhookDefinition(
                url: "http://\(emulator)/\(target)", secrets: [SinkSecret(secret)], headers: [],
                batch: WebhookDefinition.defaultBatch, concurrency: WebhookDefinition.defaultConcurrency,
                // A function may run for a minute.
                timeoutMilliseconds: WebhookDefinition.timeoutRange.upperBound,
                connectTimeoutMilliseconds: WebhookDefinition.defaultConnectTimeoutMilliseconds, format: .firebase))
        return definition
    }

    // MARK: Members

    /// Returns the project and the key in `projects/PROJECT/locations/REGION/triggers/KEY`.
    private static func names(in name: String) throws(Mistake) -> (project: String, key: String) {
        let parts = name.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        let isPlain = parts.allSatisfy { part in
            (1...128).contains(part.utf8.count) && part != "." && part != ".."
                && part.utf8.allSatisfy { byte in
                    switch byte {
                    case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x3A: true
                    default: false
                    }
                }
        }
        guard parts.count == 6, parts[0] == "projects", parts[2] == "locations", parts[4] == "triggers", isPlain else {
            throw Mistake("the name must be projects/PROJECT/locations/REGION/triggers/KEY")
        }
        return (parts[1], parts[5])
    }

    /// Returns the name of a function's feed. The name omits the end of the key, where the emulator counts its reloads, so that a
    /// function keeps its feed.
    private static func feedName(_ key: String) -> String {
        var name = key.utf8[...]
        let digits = name.reversed().prefix { (0x30...0x39).contains($0) }.count
        if digits > 0, name.dropLast(digits).last == UInt8(ascii: "-") { name = name.dropLast(digits + 1) }
        let text = "function-" + String(decoding: name, as: UTF8.self)
        guard !FeedDefinitionReader.isName(text) else { return text }
        return "function-" + Hex.encode(Digest.sha256(Array(name)).prefix(16))
    }

    /// Returns a function's path as a feed's: `*` and `{name=*}` become captures.
    private static func pattern(_ text: String) throws(Mistake) -> PathPattern {
        var parts: [String] = []
        for piece in text.split(separator: "/") {
            if piece == "*" {
                parts.append("{any\(parts.count + 1)}")
            } else if piece.hasPrefix("{"), piece.hasSuffix("=*}") {
                parts.append("\(piece.dropLast(3))}")
            } else if piece.contains("*") {
                throw Mistake(
                    "the path \"\(text.prefix(200))\" is not supported; use a wildcard for one whole part, such as /orders/{order}"
                )
            } else {
                parts.append(String(piece))
            }
        }
        guard parts.count <= KeyRules.maxDepth else {
            throw Mistake("the path has more than \(KeyRules.maxDepth) parts")
        }
        let pattern: PathPattern
        do throws(PatternError) {
            pattern = try PathPattern("/" + parts.joined(separator: "/"))
        } catch {
            throw Mistake("the path is not valid: \(error.reason)")
        }
        for name in pattern.captures where !RuleSet.isVariable(name) {
            throw Mistake(
                "the path is not valid: {\(name)} must be letters, digits and _, and must not begin with a digit")
        }
        return pattern
    }

    private static func namespaceParts(_ text: String) throws(Mistake) -> [String] {
        if text.hasPrefix("{"), text.hasSuffix("}") { return ["", ""] }
        let parts = text.split(separator: "*", omittingEmptySubsequences: false).map(String.init)
        guard !text.isEmpty, text.utf8.count <= 200 else {
            throw Mistake("the namespacePattern has 1 to 200 bytes")
        }
        return parts
    }

    /// Returns the end of the first occurrence of a part.
    private static func range(of part: String, in text: Substring) -> Substring.Index? {
        var start = text.startIndex
        while true {
            if text[start...].hasPrefix(part) { return text.index(start, offsetBy: part.count) }
            guard start < text.endIndex else { return nil }
            start = text.index(after: start)
        }
    }
}
