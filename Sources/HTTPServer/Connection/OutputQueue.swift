import CEvent
import Glibc

/// Output that could not be sent at once, in order. Holds references to shared bytes and copies nothing.
///
/// A stream's owner watches `HTTPExchange.queuedOutputBytes`. An ordinary response is one chunk, and no further request
/// is read before the chunk is sent. The server's `OutputBudget` limits all queues together: a chunk counts there until
/// it leaves the queue.
struct OutputQueue {
    struct Chunk {
        var bytes: SharedBytes
        /// The number of sent bytes; more than 0 only in the first chunk.
        var offset: Int
        /// Whether `dropUnsent` may remove the chunk (a stream's events; not the head of a response).
        var isDroppable: Bool
    }

    private static let nothing = SharedBytes([])

    private var chunks: [Chunk] = []
    private var first = 0
    private(set) var byteCount = 0

    var isEmpty: Bool { byteCount == 0 }

    /// - Parameter bytes: already charged to the server's budget.
    mutating func append(_ bytes: SharedBytes, offset: Int = 0, isDroppable: Bool) {
        guard offset < bytes.count else { return bytes.leave() }
        chunks.append(Chunk(bytes: bytes, offset: offset, isDroppable: isDroppable))
        byteCount += bytes.count - offset
    }

    /// Records that `count` bytes from the front were sent.
    mutating func removeSent(_ count: Int) {
        var rest = count
        byteCount -= count
        while rest > 0 {
            let left = chunks[first].bytes.count - chunks[first].offset
            if rest < left {
                chunks[first].offset += rest
                rest = 0
            } else {
                rest -= left
                chunks[first].bytes.leave()
                // Sent bytes must not stay in memory.
                chunks[first].bytes = Self.nothing
                first += 1
            }
        }
        if byteCount == 0 {
            chunks = []
            first = 0
        } else if first > 64, first * 2 > chunks.count {
            chunks.removeFirst(first)
            first = 0
        }
    }

    /// Removes and returns the droppable chunks of which no byte was sent. The first `committedBytes` can't be dropped.
    mutating func dropUnsent(committedBytes: Int) -> [SharedBytes] {
        var kept: [Chunk] = []
        var dropped: [SharedBytes] = []
        var start = 0
        for chunk in chunks[first...] {
            defer { start += chunk.bytes.count - chunk.offset }
            if chunk.offset > 0 || !chunk.isDroppable || start < committedBytes {
                kept.append(chunk)
            } else {
                dropped.append(chunk.bytes)
                chunk.bytes.leave()
                byteCount -= chunk.bytes.count
            }
        }
        chunks = kept
        first = 0
        return dropped
    }

    mutating func removeAll() {
        for chunk in chunks[first...] { chunk.bytes.leave() }
        chunks = []
        first = 0
        byteCount = 0
    }

    /// Calls `body` with the memory of the front chunks, at most `vector.count` of them.
    func withFront<R>(
        _ vector: UnsafeMutableBufferPointer<iovec>, _ body: (UnsafeMutableBufferPointer<iovec>) -> R
    ) -> R {
        collect(vector, 0, body)
    }

    /// Recurses once for each chunk, so that each array's memory is borrowed while `body` runs. The depth is at most
    /// `vector.count`.
    private func collect<R>(
        _ vector: UnsafeMutableBufferPointer<iovec>, _ count: Int,
        _ body: (UnsafeMutableBufferPointer<iovec>) -> R
    ) -> R {
        guard count < vector.count, first + count < chunks.count else {
            return body(UnsafeMutableBufferPointer(rebasing: vector[..<count]))
        }
        let chunk = chunks[first + count]
        return chunk.bytes.bytes.withUnsafeBytes { raw in
            let rest = UnsafeRawBufferPointer(rebasing: raw[chunk.offset...])
            vector[count] = iovec(iov_base: UnsafeMutableRawPointer(mutating: rest.baseAddress), iov_len: rest.count)
            return collect(vector, count + 1, body)
        }
    }
}

/// The buffer in which a loop assembles responses. It is used like a stack: a caller removes its bytes before it
/// returns. The exception is a connection that processes pipelined requests, which sends all its responses at once.
final class OutputScratch {
    private var base: UnsafeMutablePointer<UInt8>
    private var capacity: Int
    private(set) var count = 0

    init(capacity: Int = 64 * 1024) {
        base = .allocate(capacity: capacity)
        self.capacity = capacity
    }

    deinit {
        base.deallocate()
    }

    func append(_ bytes: UnsafePointer<UInt8>, _ length: Int) {
        if count + length > capacity { grow(by: length) }
        (base + count).update(from: bytes, count: length)
        count += length
    }

    func append(_ text: StaticString) {
        append(text.utf8Start, text.utf8CodeUnitCount)
    }

    func append(_ bytes: [UInt8]) {
        bytes.withUnsafeBufferPointer { buffer in
            if let start = buffer.baseAddress { append(start, buffer.count) }
        }
    }

    func append(decimal value: Int) {
        var digits = DecimalDigits(UInt64(max(0, value)))
        digits.withBytes { raw in
            for byte in raw { append(byte: byte) }
        }
    }

    func append(byte: UInt8) {
        if count == capacity { grow(by: 1) }
        base[count] = byte
        count += 1
    }

    /// Returns the bytes from `start` on; valid until the next append.
    func bytes(from start: Int) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: base + start, count: count - start)
    }

    /// Removes all bytes from `start` on.
    func truncate(to start: Int) {
        count = start
    }

    private func grow(by length: Int) {
        let larger = max(capacity * 2, count + length)
        let moved = UnsafeMutablePointer<UInt8>.allocate(capacity: larger)
        moved.update(from: base, count: count)
        base.deallocate()
        base = moved
        capacity = larger
    }
}
