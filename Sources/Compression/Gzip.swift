internal import CZlib

/// The reason why bytes cannot be decompressed.
public enum GzipError: Error, Sendable, Equatable {
    /// The bytes are not gzip, damaged, or truncated.
    case damaged
    /// The output would exceed `limit` bytes.
    case tooLarge(limit: Int)
    /// The memory budget is exhausted.
    case noRoom
}

/// Gzip for whole byte arrays. Pure: no state, any thread.
public enum Gzip {
    /// Compresses bytes; `level` 1 (fast) to 9 (small). Returns nil if zlib fails.
    public static func compress(_ bytes: [UInt8], level: Int32 = 1) -> [UInt8]? {
        var stream = z_stream()
        guard pathmirror_deflate_init_gzip(&stream, level) == Z_OK else { return nil }
        defer { deflateEnd(&stream) }
        let capacity = Int(deflateBound(&stream, UInt(bytes.count))) + 32
        var isDone = false
        let compressed = [UInt8](unsafeUninitializedCapacity: capacity) { output, count in
            bytes.withUnsafeBufferPointer { input in
                // zlib does not write to its input; its type only lacks `const`.
                stream.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
                stream.avail_in = UInt32(clamping: input.count)
                stream.next_out = output.baseAddress
                stream.avail_out = UInt32(clamping: capacity)
                isDone = input.count <= Int(UInt32.max) && deflate(&stream, Z_FINISH) == Z_STREAM_END
            }
            count = isDone ? Int(stream.total_out) : 0
        }
        return isDone ? compressed : nil
    }

    /// Decompresses gzip or zlib data to at most `limit` bytes, so that a small body cannot become a huge one.
    ///
    /// - Parameter hasRoom: called before output is appended, with its number of bytes; returns false if the memory
    ///   budget is exhausted.
    public static func decompress(
        _ bytes: [UInt8], limit: Int, hasRoom: (Int) -> Bool = { _ in true }
    ) throws(GzipError) -> [UInt8] {
        var decompressor = try Unpacker()
        var decompressed: [UInt8] = []
        try decompressor.append(bytes, to: &decompressed, limit: limit, hasRoom: hasRoom)
        guard decompressor.isAtEnd else { throw .damaged }
        return decompressed
    }

    /// Returns true for bytes that begin like a gzip file.
    public static func isGzip(_ bytes: some Collection<UInt8>) -> Bool {
        bytes.starts(with: [0x1F, 0x8B])
    }

    /// Decompresses a stream that arrives in pieces.
    public struct Unpacker: ~Copyable {
        private let stream: UnsafeMutablePointer<z_stream>
        /// Whether the last piece ended at the end of a gzip member.
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

        /// Decompresses a piece and appends the output.
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
                    // A file may contain several members, one after another.
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
