internal import Crypto

/// Joins the segments of a polling client's messages: base64url with `.` as padding, numbered throughout the session
/// (reference: rtdb-protocol 1.8). Pure.
public struct LongPollSegments: Sendable {
    private var pieces: [Int: (total: Int, data: String)] = [:]
    private var next = 0
    private let maxBytes: Int
    private var byteCount = 0
    /// Whether a message, or its waiting segments, exceeded the limit. The session then accepts no more segments.
    public private(set) var isTooLong = false

    public init(maxBytes: Int) { self.maxBytes = maxBytes }

    /// Bytes of segments that wait for others.
    public var waitingBytes: Int { byteCount }

    /// Adds the segments of one request, and returns the messages that are now complete, in order; nil for an invalid
    /// segment.
    public mutating func take(_ parameters: RealtimeParameters) -> [[UInt8]]? {
        var index = 0
        while let number = parameters["seg\(index)"] {
            guard let number = Int(number), let total = parameters["ts\(index)"].flatMap({ Int($0) }),
                let data = parameters["d\(index)"], total > 0, total < 1_000_000
            else { return nil }
            index += 1
            // After a lost answer, the client sends a segment again.
            guard number >= next, pieces[number] == nil else { continue }
            byteCount += data.utf8.count
            guard byteCount <= maxBytes * 2 else { return tooLong() }
            guard number - next < 100_000 else { return nil }
            pieces[number] = (total, data)
        }
        var messages: [[UInt8]] = []
        while let first = pieces[next] {
            let range = next..<(next + first.total)
            guard range.allSatisfy({ pieces[$0] != nil }) else { break }
            var text = ""
            for number in range { text += pieces.removeValue(forKey: number)?.data ?? "" }
            next = range.upperBound
            byteCount -= text.utf8.count
            guard let message = Base64URL.decodeTolerantly(text.utf8, padding: UInt8(ascii: ".")) else { return nil }
            guard message.count <= maxBytes else { return tooLong() }
            messages.append(message)
        }
        return messages
    }

    private mutating func tooLong() -> [[UInt8]]? {
        isTooLong = true
        return nil
    }
}
