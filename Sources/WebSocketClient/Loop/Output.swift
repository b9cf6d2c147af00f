import TLS

/// What is to be sent: texts, which become frames shortly before they go. Confined to its loop's thread.
struct Output {
    private var texts: [[UInt8]] = []
    private var nextText = 0
    private var bytes: [UInt8] = []
    private var start = 0
    private var writer = FrameWriter()
    /// What is to be said to the last ping for whose answer there was no room.
    private var latePong: [UInt8]?
    /// About so many bytes are made ready at a time.
    private static let stride = 128 * 1024

    var isEmpty: Bool { start == bytes.count && nextText == texts.count && latePong == nil }

    mutating func add(_ more: [[UInt8]]) {
        if nextText == texts.count {
            texts = more
            nextText = 0
        } else {
            texts += more
        }
    }

    /// Bytes that are no frames, before all else.
    mutating func addRaw(_ raw: [UInt8]) { bytes += raw }

    /// Before the texts that wait. While the peer takes nothing, only its last ping is remembered (RFC 6455 5.5.3): one
    /// that sends pings and reads no answers would have them pile up.
    mutating func addPong(_ payload: [UInt8]) {
        if bytes.count - start < Self.stride { writer.pong(payload, to: &bytes) } else { latePong = payload }
    }

    /// Behind everything.
    mutating func addClose(code: UInt16) {
        fill(.max)
        writer.close(code: code, to: &bytes)
    }

    /// Drops the texts that wait; what was begun is sent.
    mutating func dropTexts() {
        texts = []
        nextText = 0
    }

    /// Sends some of it.
    mutating func flush(_ link: Link, texts sendsTexts: Bool = true) -> StreamOutcome {
        if sendsTexts { fill(Self.stride) }
        guard start < bytes.count else { return .moved(0) }
        let outcome = bytes.withUnsafeBytes { link.stream.send(UnsafeRawBufferPointer(rebasing: $0[start...])) }
        if case .moved(let count) = outcome { start += count }
        if start == bytes.count {
            bytes.removeAll(keepingCapacity: bytes.capacity <= Self.stride * 2)
            start = 0
        } else if start > Self.stride, start > bytes.count / 2 {
            // Half of it at a time: each byte is moved once.
            bytes.removeFirst(start)
            start = 0
        }
        return outcome
    }

    private mutating func fill(_ most: Int) {
        if let pong = latePong, bytes.count - start < most {
            writer.pong(pong, to: &bytes)
            latePong = nil
        }
        while nextText < texts.count, bytes.count - start < most {
            writer.text(texts[nextText], to: &bytes)
            texts[nextText] = []
            nextText += 1
        }
        if nextText == texts.count, nextText > 0 {
            texts = []
            nextText = 0
        }
    }
}
