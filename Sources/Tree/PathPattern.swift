/// The paths of records, such as `/rooms/{room_id}/messages/{message_id}`. A part in braces matches any key and captures it.
public struct PathPattern: Sendable, Equatable, CustomStringConvertible {
    public enum Part: Sendable, Equatable {
        case key(Key)
        case capture(String)
    }

    public let parts: [Part]

    /// The keys of the pattern before its first capture. All records are at or below this path.
    public let base: Path
    public let captures: [String]

    public var depth: Int { parts.count }

    private static let maxLiteralBytes = 1_000

    /// - Throws: a sentence about the mistake.
    public init(_ text: String) throws(PatternError) {
        guard text.utf8.first == UInt8(ascii: "/") else {
            throw PatternError("a path pattern begins with /, such as /posts/{post_id}")
        }
        var parts: [Part] = []
        var captures: [String] = []
        // Splits by bytes, because a combining mark at the start of a part forms one character with the slash before it.
        let pieces = text.utf8.dropFirst().split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        for piece in pieces.map({ Substring($0) }) {
            guard !piece.isEmpty else { throw PatternError("the path pattern \(text) has an empty part") }
            // Compares bytes here, too, because a combining mark after a brace forms one character with the brace.
            let (opening, closing) = (UInt8(ascii: "{"), UInt8(ascii: "}"))
            guard piece.utf8.contains(where: { $0 == opening || $0 == closing }) else {
                let key = Key(String(piece))
                if let violation = KeyRules.violation(in: key) {
                    throw PatternError("the part \"\(piece)\" of the path pattern \(violation.reason)")
                }
                parts.append(.key(key))
                continue
            }
            let inner = piece.utf8.dropFirst().dropLast()
            let name = String(Substring(inner))
            guard piece.utf8.first == opening, piece.utf8.last == closing, !inner.isEmpty,
                !inner.contains(where: { $0 == opening || $0 == closing })
            else { throw PatternError("\"\(piece)\" captures nothing: a capture is a whole part, such as {post_id}") }
            guard !captures.contains(name) else { throw PatternError("{\(name)} comes twice in the path pattern") }
            captures.append(name)
            parts.append(.capture(name))
        }
        guard parts.count <= KeyRules.maxDepth else {
            throw PatternError("the path pattern has more than \(KeyRules.maxDepth) parts")
        }
        let literal = parts.reduce(0) { size, part in
            if case .key(let key) = part { size + key.byteCount + 1 } else { size }
        }
        guard literal <= Self.maxLiteralBytes else {
            throw PatternError("the path pattern is longer than \(Self.maxLiteralBytes) bytes")
        }
        self.parts = parts
        self.captures = captures
        base = Path(
            parts.prefix { if case .key = $0 { true } else { false } }.compactMap {
                if case .key(let key) = $0 { key } else { nil }
            })
    }

    /// Returns the path of the record with these captured keys.
    public func path(of keys: [Key]) -> Path {
        var rest = keys[...]
        return Path(
            parts.map { part in
                switch part {
                case .key(let key): key
                case .capture: rest.popFirst() ?? Key("")
                }
            })
    }

    /// Returns the longest path that contains all records with these first captured keys.
    public func path(above keys: [Key]) -> Path {
        var rest = keys[...]
        var path: [Key] = []
        for part in parts {
            switch part {
            case .key(let key): path.append(key)
            case .capture:
                guard let key = rest.popFirst() else { return Path(path) }
                path.append(key)
            }
        }
        return Path(path)
    }

    public var description: String {
        parts.map { part in
            switch part {
            case .key(let key): "/\(key.text)"
            case .capture(let name): "/{\(name)}"
            }
        }.joined()
    }
}

/// The reason why a text is no path pattern.
public struct PatternError: Error, Sendable {
    public let reason: String
    init(_ reason: String) { self.reason = reason }
}
