import TLS

/// What is to be sent: texts, which become frames shortly before they go. Confined to its loop's thread.
struct Output {
    private var texts: [[UInt8]] = []
    private var nextText = 0
    private var bytes: [UInt8] = []
    private var start = 0
    private var writer = FrameWriter()
    /// About so many bytes are made ready at a time.
    private static let stride = 128 * 1024

    var isEmpty: Bool { start == bytes.count && nextText == texts.count }

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

    /// Before the texts that wait.
    mutating func addPong(_ payload: [UInt8]) { writer.pong(payload, to: &bytes) }

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
        let outcome = bytes.withUnsafeBytes { link.send(UnsafeRawBufferPointer(rebasing: $0[start...])) }
        if case .moved(let count) = outcome { start += count }
        if start == bytes.count {
            bytes.removeAll(keepingCapacity: bytes.capacity <= Self.stride * 2)
            start = 0
        } else if start > Self.stride {
            bytes.removeFirst(start)
            start = 0
        }
        return outcome
    }

    private mutating func fill(_ most: Int) {
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
