/// What of JSON's grammar (RFC 8259) a text breaks, and where. Each reader says it in words of its own.
public struct JSONFault: Error, Equatable, Sendable {
    /// What is wrong.
    public enum Kind: Equatable, Sendable, CaseIterable {
        /// A value should begin here: the text ends, or this begins none.
        case noValue
        /// A name in double quotes should stand here.
        case noName
        /// A colon should stand here, behind a name.
        case noColon
        /// A comma or the closing bracket should stand here.
        case noSeparator
        /// A number has no digit where its first should be.
        case noFirstDigit
        /// A number of several digits begins with 0. The place is behind the digits.
        case leadingZero
        /// A fraction or an exponent has no digit.
        case noDigit
        /// The text ends inside a string. The place is the end.
        case openString
        /// A control character stands in a string as it is.
        case controlCharacter
        /// There is no such escape. The place is behind the backslash.
        case unknownEscape
        /// `\u` without four hexadecimal digits. The place is where the first should be.
        case badHexDigits
        /// A surrogate without its other half. The place is behind the last digits that were read.
        case halfOfPair
    }

    /// What is wrong.
    public let kind: Kind
    /// Where, in bytes from the beginning of the text.
    public let offset: Int

    /// A fault at a place.
    public init(_ kind: Kind, at offset: Int) {
        self.kind = kind
        self.offset = offset
    }
}
