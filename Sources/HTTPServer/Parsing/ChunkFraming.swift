/// Checks the lines that frame the chunks of a body before http-parser does, because the version that Debian builds is
/// lenient: it ignores the content of extensions, and accepts any byte as the line feed after a carriage return. A
/// proxy that sees a line's end where the parser sees none would disagree with us about the end of the request.
///
/// Accepts bytes in any number of pieces and returns a verdict. Skipping chunk data is free.
struct ChunkFraming {
    private enum State {
        /// Within the hexadecimal digits that begin a chunk.
        case size
        /// After the digits: blanks and extensions.
        case rest
        case lineFeed
        case data(left: UInt64)
        case dataReturn
        case dataLineFeed
        /// After the last chunk. Trailers are header lines, which the parser checks strictly.
        case trailers
    }

    /// Maximum length of one chunk's line in bytes, without its end. Peers send only a few bytes, and they are not
    /// stored.
    static let maxLineBytes = 4_096

    private var state = State.size
    private var size: UInt64 = 0
    private var digits = 0
    private var lineBytes = 0

    /// Checks the next bytes of a chunked body, which may extend beyond its end. Returns the error, if any.
    mutating func take(_ bytes: UnsafeRawBufferPointer) -> ParseFailure? {
        var index = 0
        while index < bytes.count {
            switch state {
            case .trailers: return nil
            case .data(let left):
                let count = min(left, UInt64(bytes.count - index))
                index += Int(count)
                state = count == left ? .dataReturn : .data(left: left - count)
            default:
                if let failure = take(bytes[index]) { return failure }
                index += 1
            }
        }
        return nil
    }

    private mutating func take(_ byte: UInt8) -> ParseFailure? {
        switch state {
        case .size, .rest:
            if byte == 0x0D {
                guard digits > 0 else { return .malformed("a chunk without a size") }
                state = .lineFeed
                return nil
            }
            lineBytes += 1
            guard lineBytes <= Self.maxLineBytes else { return .malformed("a chunk's extensions are too long") }
            return inLine(byte)
        case .lineFeed:
            guard byte == 0x0A else { return .malformed("a carriage return within a chunk's line") }
            state = size == 0 ? .trailers : .data(left: size)
            (size, digits, lineBytes) = (0, 0, 0)
        case .dataReturn:
            guard byte == 0x0D else { return .malformed("a chunk is longer than its size") }
            state = .dataLineFeed
        case .dataLineFeed:
            guard byte == 0x0A else { return .malformed("a chunk is longer than its size") }
            state = .size
        case .data, .trailers: break
        }
        return nil
    }

    private mutating func inLine(_ byte: UInt8) -> ParseFailure? {
        if case .size = state {
            if let digit = Self.digit(byte) {
                guard size >> 60 == 0 else { return .malformed("a chunk's size is too large") }
                size = size << 4 | digit
                digits += 1
                return nil
            }
            guard digits > 0, byte == 0x3B || byte == 0x20 || byte == 0x09 else {
                return .malformed("a chunk's size is not a hexadecimal number")
            }
            state = .rest
        }
        // RFC 9112 permits visible characters, blanks and, between quotes, bytes over 127 in extensions.
        guard byte >= 0x20 && byte != 0x7F || byte == 0x09 else {
            return .malformed("a control character in a chunk's extensions")
        }
        return nil
    }

    private static func digit(_ byte: UInt8) -> UInt64? {
        switch byte {
        case 0x30...0x39: UInt64(byte - 0x30)
        case 0x41...0x46: UInt64(byte - 0x41 + 10)
        case 0x61...0x66: UInt64(byte - 0x61 + 10)
        default: nil
        }
    }
}
