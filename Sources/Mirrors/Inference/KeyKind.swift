import Tree

/// What a key looks like: a name that somebody gave, or one of those that programs make.
enum KeyKind: Sendable, Hashable {
    case name
    /// A whole number, as an array's index or a database's id.
    case number
    case pushID
    case uuid
    /// A day, a month, a week.
    case date
    /// A long mixture of digits and letters.
    case token

    init(_ text: String) {
        let bytes = Array(text.utf8)
        if !bytes.isEmpty, bytes.allSatisfy(Self.isDigit), bytes.count <= 18 {
            self = .number
        } else if bytes.count == 20, bytes[0] == UInt8(ascii: "-"), bytes.allSatisfy(Self.isOfPushIDs) {
            self = .pushID
        } else if UUIDText.isUUID(text) {
            self = .uuid
        } else if ISO8601.day(text) != nil || Self.isMonthOrWeek(bytes) {
            self = .date
        } else if Self.isToken(bytes) {
            self = .token
        } else {
            self = .name
        }
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }

    private static func isLetter(_ byte: UInt8) -> Bool { (0x61...0x7A).contains(byte | 0x20) }

    private static func isOfPushIDs(_ byte: UInt8) -> Bool {
        isDigit(byte) || isLetter(byte) || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
    }

    /// `2026-01`, `2026-W05`.
    private static func isMonthOrWeek(_ bytes: [UInt8]) -> Bool {
        guard bytes.count == 7 || bytes.count == 8, bytes[4] == UInt8(ascii: "-") else { return false }
        let rest = bytes.count == 8 ? bytes[6...] : bytes[5...]
        return bytes[..<4].allSatisfy(isDigit) && rest.allSatisfy(isDigit)
            && (bytes.count == 7 || bytes[5] == UInt8(ascii: "W"))
    }

    /// What random bytes become in hexadecimal or Base64: the ids of users and documents.
    private static func isToken(_ bytes: [UInt8]) -> Bool {
        guard bytes.count >= 16, bytes.allSatisfy(isOfPushIDs) else { return false }
        let digits = bytes.count(where: isDigit)
        return digits >= 2 && digits < bytes.count
            && (bytes.count >= 20 || bytes.allSatisfy { isDigit($0) || (0x61...0x66).contains($0 | 0x20) })
    }
}
