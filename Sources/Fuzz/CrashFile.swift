import Glibc

/// Holds the current input in a file that is mapped into memory. A trap ends the process without a message, but
/// everything written to the mapping is in the file.
///
/// Layout: 24 bytes of the parser's name, padded with zeros; 8 bytes of length, little-endian; the input.
struct CrashFile {
    struct Failure: Error {
        let reason: String
    }

    private static let nameSize = 24
    private static let headerSize = 32
    private static let size = 1 << 20

    private let path: String
    private let memory: UnsafeMutableRawBufferPointer

    init(_ path: String) throws(Failure) {
        let descriptor = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Failure(reason: "\(path): \(Self.lastError)") }
        defer { close(descriptor) }
        guard ftruncate(descriptor, off_t(Self.size)) == 0,
            let memory = mmap(nil, Self.size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0), memory != MAP_FAILED
        else { throw Failure(reason: "\(path): \(Self.lastError)") }
        self.path = path
        self.memory = UnsafeMutableRawBufferPointer(start: memory, count: Self.size)
    }

    func keep(_ name: String, _ input: [UInt8]) {
        var header = Array(name.utf8.prefix(Self.nameSize))
        header += Array(repeating: 0, count: Self.nameSize - header.count)
        memory.copyBytes(from: header)
        let room = Self.size - Self.headerSize
        memory.storeBytes(of: UInt64(min(input.count, room)).littleEndian, toByteOffset: Self.nameSize, as: UInt64.self)
        UnsafeMutableRawBufferPointer(rebasing: memory[Self.headerSize...]).copyBytes(from: input.prefix(room))
    }

    /// Removes the file after a run without a crash.
    func remove() {
        munmap(memory.baseAddress, memory.count)
        unlink(path)
    }

    /// Reads a crash file. Returns nil if the file can't be read or is not a crash file.
    static func read(_ path: String) -> (name: String, input: [UInt8])? {
        guard let file = fopen(path, "r") else { return nil }
        defer { fclose(file) }
        let bytes = [UInt8](unsafeUninitializedCapacity: size) { buffer, count in
            count = fread(buffer.baseAddress, 1, size, file)
        }
        guard bytes.count > headerSize else { return nil }
        let length = bytes[nameSize..<headerSize].reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        guard length <= UInt64(bytes.count - headerSize) else { return nil }
        let name = String(decoding: bytes[..<nameSize].prefix { $0 != 0 }, as: UTF8.self)
        return (name, Array(bytes[headerSize...].prefix(Int(length))))
    }

    private static var lastError: String { String(cString: strerror(errno)) }
}
