public import Runtime
import Synchronization
import Tree

/// The file that holds the pages of all trees of a program. It has no name, and disappears when the program ends.
/// Any thread.
public final class PageFile: Sendable {
    private let file: ScratchFile
    private let extents: Mutex<PageExtents>
    private let logger: Logger
    private let reportedAt = Atomic<Int64>(.min)
    /// Ends the process because a page cannot be read.
    let end: @Sendable (_ reason: String) -> Never

    /// Each page is followed by a checksum, which is verified after a read.
    private static let sumBytes = MemoryLayout<UInt64>.size
    /// Minimum time between two warnings that the file is full.
    private static let reportMilliseconds: Int64 = 60_000
    /// Time for which the file counts as full.
    private static let fullMilliseconds: Int64 = 300_000

    /// The monotonic time of the last page that the file could not store.
    private let refusedAt = Atomic<Milliseconds>(.min)
    private let now: @Sendable () -> Milliseconds

    /// - Parameters:
    ///   - directory: the directory of the file. It should be on a disk, because a file system in memory saves no
    ///     memory.
    ///   - mostBytes: maximum number of bytes on the disk.
    ///   - now: monotonic milliseconds.
    ///   - end: ends the process, because a part of a tree cannot be read again and its readers cannot be answered.
    public init(
        in directory: String, mostBytes: Int64, _ logger: Logger,
        now: @escaping @Sendable () -> Milliseconds = { Clock.monotonicMilliseconds },
        end: @escaping @Sendable (_ reason: String) -> Never
    ) throws(ScratchFileError) {
        self.now = now
        self.end = end
        file = try ScratchFile(in: directory)
        extents = Mutex(PageExtents(limit: mostBytes))
        self.logger = logger
    }

    /// The bytes that pages take in the file.
    public var usedBytes: Int64 { extents.withLock { $0.used } }

    /// Writes a page; returns nil if there is no space for it.
    func write(_ bytes: UnsafeRawBufferPointer) -> PageLocation? {
        let count = bytes.count + Self.sumBytes
        guard let length = Int32(exactly: bytes.count), let offset = extents.withLock({ $0.take(count) }) else {
            refused("the file has reached its limit (four times --tree-memory)")
            return nil
        }
        let whole = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: 8)
        defer { whole.deallocate() }
        whole.copyMemory(from: bytes)
        whole.storeBytes(of: CheckSum.of(bytes, at: offset), toByteOffset: bytes.count, as: UInt64.self)
        do {
            try file.write(UnsafeRawBufferPointer(whole), at: offset)
            return PageLocation(offset: offset, length: length)
        } catch {
            give(offset, count)
            refused(error.reason)
            return nil
        }
    }

    /// Calls `body` with the bytes of a page, which are valid only during the call.
    func withBytes<Result>(
        at location: PageLocation, _ body: (UnsafeRawBufferPointer) -> Result
    ) throws(PageFileError) -> Result {
        let count = Int(location.length)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: count + Self.sumBytes, alignment: 8)
        defer { buffer.deallocate() }
        do {
            try file.read(into: buffer, at: location.offset)
        } catch {
            throw .unreadable(error.description)
        }
        let bytes = UnsafeRawBufferPointer(rebasing: buffer[..<count])
        guard buffer.loadUnaligned(fromByteOffset: count, as: UInt64.self) == CheckSum.of(bytes, at: location.offset)
        else {
            throw .unreadable("the disk returned other bytes than were written")
        }
        return body(bytes)
    }

    /// Frees a page that is no longer read.
    func free(_ location: PageLocation) { give(location.offset, Int(location.length) + Self.sumBytes) }

    private func give(_ offset: Int64, _ count: Int) {
        extents.withLock { extents in
            // Under the lock: the file is emptied before the next page gets a part of it.
            if extents.give(offset, count) { file.empty() }
        }
    }

    /// Whether the file has stored all pages of the last five minutes.
    var hasRoom: Bool {
        let last = refusedAt.load(ordering: .relaxed)
        return last == .min || now() - last >= Self.fullMilliseconds
    }

    private func refused(_ reason: String) {
        let now = now()
        refusedAt.store(now, ordering: .relaxed)
        let last = reportedAt.load(ordering: .relaxed)
        guard last == .min || now - last >= Self.reportMilliseconds,
            reportedAt.compareExchange(expected: last, desired: now, ordering: .relaxed).exchanged
        else { return }
        logger.warning(
            "the page file accepts no more pages, and trees stay in memory beyond --tree-memory",
            [("reason", reason), ("bytes", "\(usedBytes)")])
    }
}

/// The reason why a page cannot be read.
enum PageFileError: Error, CustomStringConvertible {
    case unreadable(String)

    var description: String {
        switch self {
        case .unreadable(let reason): reason
        }
    }
}

/// The used and free parts of a page file. A value; its owner locks.
///
/// Sizes are rounded up to one of eight steps per power of two, so that a later page can reuse a freed part; at most an
/// eighth is wasted.
struct PageExtents {
    /// Maximum size of the file, in bytes.
    let limit: Int64
    /// The offset after the last part that was ever used.
    private(set) var end: Int64 = 0
    /// Bytes of the used parts.
    private(set) var used: Int64 = 0
    /// The offsets of free parts, by size.
    private var free: [Int64: [Int64]] = [:]

    init(limit: Int64) { self.limit = limit }

    private static let least = 512

    /// Returns the size of the part for so many bytes.
    static func size(for count: Int) -> Int64 {
        guard count > least else { return Int64(least) }
        let step = 1 << (Int.bitWidth - 1 - count.leadingZeroBitCount - 3)
        return Int64((count + step - 1) / step * step)
    }

    /// Allocates a part for so many bytes and returns its offset; nil if the file is full.
    mutating func take(_ count: Int) -> Int64? {
        let size = Self.size(for: count)
        if let offset = free[size]?.popLast() {
            used += size
            return offset
        }
        guard end + size <= limit else { return nil }
        defer { end += size }
        used += size
        return end
    }

    /// Frees a part. Returns true if no part is used any more; then the file can be emptied.
    mutating func give(_ offset: Int64, _ count: Int) -> Bool {
        let size = Self.size(for: count)
        used -= size
        free[size, default: []].append(offset)
        guard used == 0 else { return false }
        free = [:]
        end = 0
        return true
    }
}

/// A 64-bit checksum of bytes that are stored outside memory. It detects damage, not manipulation.
enum CheckSum {
    /// Processes eight bytes at a time: multiplies each word in, and mixes the upper half into the lower.
    ///
    /// - Parameter location: the offset of the bytes, which is part of the sum: equal bytes from another offset have a
    ///   different sum.
    static func of(_ bytes: UnsafeRawBufferPointer, at offset: Int64 = 0) -> UInt64 {
        var sum: UInt64 = 0xCBF2_9CE4_8422_2325 ^ UInt64(bytes.count) ^ (UInt64(bitPattern: offset) << 20)
        var index = 0
        while index + 8 <= bytes.count {
            let word = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self))
            sum = (sum ^ word) &* 0x9E37_79B9_7F4A_7C15
            sum ^= sum >> 32
            index += 8
        }
        while index < bytes.count {
            sum = (sum ^ UInt64(bytes[index])) &* 0x100_0000_01B3
            index += 1
        }
        return sum
    }
}
