internal import CZlib

/// Why bytes can't be unpacked.
public enum GzipError: Error, Sendable, Equatable {
    /// Not gzip, damaged, or cut short.
    case damaged
    /// More than `limit` bytes would come out.
    case tooLarge(limit: Int)
    /// Whoever was asked for room had none.
    case noRoom
}

/// Gzip of whole byte arrays. Pure: no state, any thread.
public enum Gzip {
    /// Packs; `level` 1 (fast) to 9 (small).
    public static func compress(_ bytes: [UInt8], level: Int32 = 1) -> [UInt8]? {
        var stream = z_stream()
        guard pathmirror_deflate_init_gzip(&stream, level) == Z_OK else { return nil }
        defer { deflateEnd(&stream) }
        let capacity = Int(deflateBound(&stream, UInt(bytes.count))) + 32
        var isDone = false
        let packed = [UInt8](unsafeUninitializedCapacity: capacity) { output, count in
            bytes.withUnsafeBufferPointer { input in
                // zlib does not write to its input; its type only forgets to say so.
                stream.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
                stream.avail_in = UInt32(clamping: input.count)
                stream.next_out = output.baseAddress
                stream.avail_out = UInt32(clamping: capacity)
                isDone = input.count <= Int(UInt32.max) && deflate(&stream, Z_FINISH) == Z_STREAM_END
            }
            count = isDone ? Int(stream.total_out) : 0
        }
        return isDone ? packed : nil
    }

    /// Unpacks gzip or zlib data to at most `limit` bytes, so that a small body can't become a huge one.
    ///
    /// - Parameter hasRoom: asked for room for so many bytes more before they are made.
    public static func decompress(
        _ bytes: [UInt8], limit: Int, hasRoom: (Int) -> Bool = { _ in true }
    ) throws(GzipError) -> [UInt8] {
        var unpacker = try Unpacker()
        var unpacked: [UInt8] = []
        try unpacker.append(bytes, to: &unpacked, limit: limit, hasRoom: hasRoom)
        guard unpacker.isAtEnd else { throw .damaged }
        return unpacked
    }

    /// True for bytes that begin as gzip files do.
    public static func isGzip(_ bytes: some Collection<UInt8>) -> Bool {
        bytes.starts(with: [0x1F, 0x8B])
    }

    /// Unpacks a stream that comes in pieces.
    public struct Unpacker: ~Copyable {
        private let stream: UnsafeMutablePointer<z_stream>
        /// The last piece ended where a gzip member ends.
        public private(set) var isAtEnd = false

        public init() throws(GzipError) {
            stream = .allocate(capacity: 1)
            stream.initialize(to: z_stream())
            guard pathmirror_inflate_init_gzip(stream) == Z_OK else {
                stream.deallocate()
                throw .damaged
            }
        }

        deinit {
            inflateEnd(stream)
            stream.deallocate()
        }

        /// Unpacks a piece and appends what comes out.
        public mutating func append(
            _ bytes: [UInt8], to output: inout [UInt8], limit: Int = .max,
            hasRoom: (Int) -> Bool = { _ in true }
        ) throws(GzipError) {
            var chunk = [UInt8](repeating: 0, count: 64 * 1024)
            var result: GzipError?
            bytes.withUnsafeBufferPointer { input in
                stream.pointee.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
                stream.pointee.avail_in = UInt32(clamping: input.count)
                repeat {
                    // A file may hold several members, one after another.
                    if isAtEnd, stream.pointee.avail_in > 0 {
                        inflateReset(stream)
                        isAtEnd = false
                    }
                    let status = chunk.withUnsafeMutableBufferPointer { buffer in
                        stream.pointee.next_out = buffer.baseAddress
                        stream.pointee.avail_out = UInt32(buffer.count)
                        return inflate(stream, Z_NO_FLUSH)
                    }
                    guard status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR else {
                        result = .damaged
                        return
                    }
                    isAtEnd = status == Z_STREAM_END
                    let count = chunk.count - Int(stream.pointee.avail_out)
                    guard output.count + count <= limit else {
                        result = .tooLarge(limit: limit)
                        return
                    }
                    guard hasRoom(count) else {
                        result = .noRoom
                        return
                    }
                    output.append(contentsOf: chunk[..<count])
                } while stream.pointee.avail_in > 0 || stream.pointee.avail_out == 0 && !isAtEnd
            }
            if let result { throw result }
        }
    }
}
