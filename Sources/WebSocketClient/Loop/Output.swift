import TLS

/// The output of a connection. Texts become frames shortly before they are sent. Confined to its loop's thread.
struct Output {
    private var texts: [[UInt8]] = []
    private var nextText = 0
    private var bytes: [UInt8] = []
    private var start = 0
    private var writer = FrameWriter()
    /// The payload of the last ping, if its answer did not fit into the output.
    private var latePong: [UInt8]?
    /// The approximate number of bytes that are framed at a time.
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

    /// Adds bytes that are not frames, before all other output.
    mutating func addRaw(_ raw: [UInt8]) { bytes += raw }

    /// Adds a pong before the waiting texts. While the peer reads nothing, only its last ping is answered (RFC 6455
    /// 5.5.3), so that a peer that sends pings and reads no answers does not accumulate output.
    mutating func addPong(_ payload: [UInt8]) {
        if bytes.count - start < Self.stride { writer.pong(payload, to: &bytes) } else { latePong = payload }
    }

    /// Adds a close frame after all other output.
    mutating func addClose(code: UInt16) {
        fill(.max)
        writer.close(code: code, to: &bytes)
    }

    /// Drops the waiting texts. Frames that have been written are still sent.
    mutating func dropTexts() {
        texts = []
        nextText = 0
    }

    /// Sends part of the output.
    mutating func flush(_ link: ConnectedSocket, texts sendsTexts: Bool = true) -> StreamOutcome {
        if sendsTexts { fill(Self.stride) }
        guard start < bytes.count else { return .moved(0) }
        let outcome = bytes.withUnsafeBytes { link.stream.send(UnsafeRawBufferPointer(rebasing: $0[start...])) }
        if case .moved(let count) = outcome { start += count }
        if start == bytes.count {
            bytes.removeAll(keepingCapacity: bytes.capacity <= Self.stride * 2)
            start = 0
        } else if start > Self.stride, start > bytes.count / 2 {
            // Removing at least half of the buffer at a time moves each byte only once.
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
