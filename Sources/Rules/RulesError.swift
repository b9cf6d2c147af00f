/// The mistakes in a text that is no valid set of rules, in the order of the text.
public struct RulesError: Error, Equatable, Sendable, CustomStringConvertible {
    /// One mistake. Lines and columns count from 1; columns in UTF-16 code units of the uploaded text.
    public struct Problem: Equatable, Sendable, CustomStringConvertible {
        public let line: Int
        public let column: Int
        /// Firebase's wording, where it is known.
        public let message: String

        /// `LINE:COLUMN: MESSAGE`.
        public var description: String { "\(line):\(column): \(message)" }
    }

    public let problems: [Problem]

    /// One line per problem, each ended by a line feed: the text of the protocol's error.
    public var description: String {
        problems.map { $0.description + "\n" }.joined()
    }
}

/// A mistake at a byte of the uploaded text.
struct TextError: Error {
    let offset: Int
    let message: String
}

extension RulesError {
    /// Converts offsets to lines and columns, and sorts the mistakes.
    init(_ errors: [TextError], in text: [UInt8]) {
        // One pass over the text for all errors.
        var position = TextPosition()
        var offset = 0
        problems = errors.sorted { $0.offset < $1.offset }.map { error in
            let end = min(error.offset, text.count)
            position.advance(over: text[offset..<end])
            offset = end
            return Problem(line: position.line, column: position.column, message: error.message)
        }
    }
}

/// A position in a text. Lines and columns count from 1; columns in UTF-16 code units.
public struct TextPosition: Equatable, Sendable, CustomStringConvertible {
    public private(set) var line = 1
    public private(set) var column = 1

    init() {}

    init(of offset: Int, in text: [UInt8]) {
        advance(over: text.prefix(offset))
    }

    fileprivate mutating func advance(over bytes: ArraySlice<UInt8>) {
        for byte in bytes {
            if byte == UInt8(ascii: "\n") {
                line += 1
                column = 1
            } else if byte & 0xC0 != 0x80 {
                column += byte >= 0xF0 ? 2 : 1
            }
        }
    }

    public var description: String { "\(line):\(column)" }
}
