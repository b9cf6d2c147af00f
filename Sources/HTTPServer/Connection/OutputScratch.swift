/// The one buffer in which a loop puts responses together. Used like a stack: whoever appends takes its bytes off again
/// before it returns, except a connection that is working through pipelined requests, which sends them all at once.
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

    /// The bytes from `start` on; valid until the next append.
    func bytes(from start: Int) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: base + start, count: count - start)
    }

    /// Takes everything from `start` on off again.
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
