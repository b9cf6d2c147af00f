import Crypto
import Engine

/// Places in the log as offsets: texts that clients keep and send back.
enum LogPlaceText {
    /// Batches have 16 bytes; nothing that is much longer is one.
    private static let maxBatchBytes = 32
    /// No log comes so far; what is reckoned with a seq that a client names stays far from where numbers end.
    static let maxSeq = Int64.max / 2

    /// `SEQ_PART_LINES_BATCH`, the numbers at their full width: offsets order as texts as they do in the log.
    static func offset(_ place: LogPlace) -> String {
        // Inside an entry the first part is one step behind the entry's first line.
        let part = place.inside.map { Int64($0.part) + 1 } ?? 0
        let lines = place.inside.map { Int64($0.lines) } ?? 0
        let batch = place.batch.map(Base64URL.encode) ?? ""
        return "\(padded(place.seq, 19))_\(padded(part, 10))_\(padded(lines, 10))_\(batch)"
    }

    /// Reads `offset`, and nothing else.
    static func place(offset text: String) -> LogPlace? {
        let parts = text.split(separator: "_", maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count == 4, zip(parts, [19, 10, 10]).allSatisfy({ $0.utf8.count == $1 }) else { return nil }
        guard let seq = number(parts[0]), seq <= maxSeq, let part = number(parts[1]), let lines = number(parts[2]),
            part <= Int64(Int32.max), lines < max(part, 1)
        else { return nil }
        var place = LogPlace(seq: seq)
        if part > 0 { place.inside = LogPlace.Inside(part: Int32(part - 1), lines: Int32(lines)) }
        guard !parts[3].isEmpty else { return place }
        guard let batch = batch(parts[3]) else { return nil }
        place.batch = batch
        return place
    }

    // MARK: Their parts

    private static func number(_ text: Substring) -> Int64? {
        text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) ? Int64(text) : nil
    }

    private static func batch(_ text: Substring) -> [UInt8]? {
        guard let bytes = Base64URL.decode(text.utf8), (1...maxBatchBytes).contains(bytes.count) else { return nil }
        return bytes
    }

    private static func padded(_ value: Int64, _ width: Int) -> String {
        let digits = String(value)
        return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
    }
}
