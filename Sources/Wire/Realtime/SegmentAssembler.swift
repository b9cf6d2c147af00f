/// Joins the frames of long messages (reference: rtdb-protocol 1.6). Pure.
public struct SegmentAssembler: Sendable {
    public enum Result: Equatable, Sendable {
        /// No result: the frame was a keep-alive, or more frames have to follow.
        case nothing
        case message([UInt8])
        case error(String)
        /// The message has more than `limit` bytes.
        case tooLong(limit: Int)
    }

    private var expected = 0
    private var bytes: [UInt8] = []
    private let maxBytes: Int

    /// - Parameter maxBytes: maximum size of a message in bytes.
    public init(maxBytes: Int) { self.maxBytes = maxBytes }

    /// The received bytes of an incomplete message.
    public var waitingBytes: Int { bytes.count }

    /// Adds the text of the next frame.
    public mutating func take(_ frame: [UInt8]) -> Result {
        if expected == 0 {
            if let count = Self.count(frame) {
                guard count >= 0 else { return .error("a segment count below zero") }
                expected = count
                return .nothing
            }
            return frame.count <= maxBytes ? .message(frame) : tooLong
        }
        guard bytes.count + frame.count <= maxBytes else { return tooLong }
        bytes.append(contentsOf: frame)
        expected -= 1
        guard expected == 0 else { return .nothing }
        defer { bytes = [] }
        return .message(bytes)
    }

    private var tooLong: Result { .tooLong(limit: maxBytes) }

    /// Returns the number of segments that a frame announces; nil for a complete message.
    private static func count(_ frame: [UInt8]) -> Int? {
        guard frame.count <= 6, !frame.isEmpty else { return nil }
        return Int(String(decoding: frame, as: UTF8.self))
    }
}

/// Splits long messages into frames for clients: a count, then pieces of at most 16,384 UTF-16 units, split between
/// characters.
public enum Segments {
    public static let maxUnits = 16_384
    /// iOS reads four digits of a count.
    public static let maxCount = 9_999

    /// Returns the texts of the frames; nil if the message exceeds the length that clients accept.
    public static func split(_ message: [UInt8]) -> [ArraySlice<UInt8>]? {
        // A character's UTF-8 has at least as many bytes as its UTF-16 has units.
        if message.count <= maxUnits { return [message[...]] }
        var pieces: [ArraySlice<UInt8>] = []
        var start = 0
        while start < message.count {
            var end = min(start + maxUnits, message.count)
            while end < message.count, message[end] & 0xC0 == 0x80 { end -= 1 }
            pieces.append(message[start..<end])
            start = end
        }
        guard pieces.count <= maxCount else { return nil }
        return [Array("\(pieces.count)".utf8)[...]] + pieces
    }
}
