import Crypto
public import Tree

/// A JSON value in a token. Unlike keys of the database, its keys may be any text.
public enum ClaimValue: Sendable, Equatable {
    case null
    case bool(Bool)
    case integer(Int64)
    case number(Double)
    case string(String)
    case array([ClaimValue])
    case object(Claims)

    public var string: String? {
        if case .string(let text) = self { text } else { nil }
    }

    public var bool: Bool? {
        if case .bool(let flag) = self { flag } else { nil }
    }

    public var object: Claims? {
        if case .object(let claims) = self { claims } else { nil }
    }

    /// A time in seconds since 1970, rounded down; nil for an invalid time.
    var seconds: Int64? {
        let latest: Int64 = 1 << 53
        switch self {
        case .integer(let value): return (0...latest).contains(value) ? value : nil
        case .number(let value):
            guard value.isFinite, value >= 0, value <= Double(latest) else { return nil }
            return Int64(value.rounded(.down))
        default: return nil
        }
    }
}

extension ClaimValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral,
    ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    public init(stringLiteral value: String) { self = .string(value) }
    public init(integerLiteral value: Int64) { self = .integer(value) }
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    public init(arrayLiteral elements: ClaimValue...) { self = .array(elements) }

    /// Of members with the same name the last one wins.
    public init(dictionaryLiteral elements: (String, ClaimValue)...) {
        var claims = Claims()
        for (name, value) in elements { claims[name] = value }
        self = .object(claims)
    }
}

/// A JSON object in a token: names are unique, and the order is kept.
public struct Claims: Sendable, Equatable, ExpressibleByDictionaryLiteral {
    public struct Member: Sendable, Equatable {
        public let name: String
        public let value: ClaimValue
    }
    public private(set) var members: [Member] = []

    public init() {}

    /// Of members with the same name the last one wins.
    public init(dictionaryLiteral elements: (String, ClaimValue)...) {
        for (name, value) in elements { self[name] = value }
    }

    /// Searches the members linearly; a token has few.
    public subscript(name: String) -> ClaimValue? {
        get { members.first { $0.name.utf8.elementsEqual(name.utf8) }?.value }
        set {
            let index = members.firstIndex { $0.name.utf8.elementsEqual(name.utf8) }
            switch (index, newValue) {
            case (let index?, let value?): members[index] = Member(name: name, value: value)
            case (let index?, nil): members.remove(at: index)
            case (nil, let value?): members.append(Member(name: name, value: value))
            case (nil, nil): break
            }
        }
    }

    /// Adds a member whose name is known to be new.
    mutating func append(_ name: String, _ value: ClaimValue) { members.append(Member(name: name, value: value)) }
}

/// Writes claims as JSON without blanks.
public struct ClaimsWriter {
    private(set) var bytes: [UInt8] = []

    /// Returns the claims as JSON, with their members in order.
    public static func encode(_ claims: Claims) -> [UInt8] { encode(.object(claims)) }

    /// Returns a value as JSON.
    public static func encode(_ value: ClaimValue) -> [UInt8] {
        var writer = ClaimsWriter()
        writer.write(value)
        return writer.bytes
    }

    private mutating func write(_ value: ClaimValue) {
        switch value {
        case .null: raw("null")
        case .bool(let flag): raw(flag ? "true" : "false")
        case .integer(let number): raw("\(number)")
        // JSON has no infinities and no NaN.
        case .number(let number): raw(number.isFinite ? "\(number)" : "null")
        case .string(let text): write(text)
        case .array(let values):
            raw("[")
            for (index, value) in values.enumerated() {
                if index > 0 { raw(",") }
                write(value)
            }
            raw("]")
        case .object(let claims):
            raw("{")
            for (index, member) in claims.members.enumerated() {
                if index > 0 { raw(",") }
                write(member.name)
                raw(":")
                write(member.value)
            }
            raw("}")
        }
    }

    private mutating func write(_ text: String) {
        bytes.append(UInt8(ascii: "\""))
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): bytes.append(contentsOf: [UInt8(ascii: "\\"), byte])
            case 0..<0x20, 0x7F: raw("\\u00\(Hex.encode([byte]))")
            default: bytes.append(byte)
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }

    private mutating func raw(_ text: String) { bytes.append(contentsOf: text.utf8) }
}

extension Node {
    /// Creates the node that rules see for claims: arrays have their indexes as keys, and null or empty values are
    /// omitted. Keys may be invalid in the database, such as `google.com`, so such a node is never stored.
    public init(_ value: ClaimValue) {
        switch value {
        case .null: self = .null
        case .bool(let flag): self = .bool(flag)
        case .integer(let number): self = .int(number)
        case .number(let number): self = .double(number)
        case .string(let text): self = .string(text)
        case .array(let values):
            self.init(children: values.enumerated().map { (Key(String($0.offset)), Node($0.element)) })
        case .object(let claims): self.init(claims)
        }
    }

    public init(_ claims: Claims) {
        self.init(children: claims.members.map { (Key($0.name), Node($0.value)) })
    }
}
