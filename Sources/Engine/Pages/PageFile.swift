public import Runtime
import Synchronization
import Tree

/// The file in which the pages of all trees of a program are. It has no name, and is gone when the program ends. Any thread.
public final class PageFile: Sendable {
    private let file: ScratchFile
    private let extents: Mutex<PageExtents>
    private let logger: Logger
    private let toldAt = Atomic<Int64>(.min)
    /// Ends the process, as a page can't be had.
    let end: @Sendable (_ reason: String) -> Never

    /// Pages have a check sum behind them: what the disk gives back is believed only where it is right.
    private static let sumBytes = MemoryLayout<UInt64>.size
    /// How often the log says that there is no room.
    private static let tellMilliseconds: Int64 = 60_000
    /// For how long it counts as full.
    private static let fullMilliseconds: Int64 = 300_000

    /// When it could not take a page last.
    private let refusedAt = Atomic<Milliseconds>(.min)
    private let now: @Sendable () -> Milliseconds

    /// - Parameters:
    ///   - directory: where it is made; on a disk, as one that is itself in memory saves none.
    ///   - mostBytes: what it may take of the disk.
    ///   - now: monotonic milliseconds.
    ///   - end: ends the process, as a part of a tree can't be read again: who asks for it can't be answered.
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

    /// What pages take of it, in bytes.
    public var usedBytes: Int64 { extents.withLock { $0.used } }

    /// Writes a page; nil where there is no room for it.
    func write(_ bytes: UnsafeRawBufferPointer) -> PagePlace? {
        let count = bytes.count + Self.sumBytes
        guard let length = Int32(exactly: bytes.count), let offset = extents.withLock({ $0.take(count) }) else {
            refused("it has all that it may have (four times --tree-memory)")
            return nil
        }
        let whole = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: 8)
        defer { whole.deallocate() }
        whole.copyMemory(from: bytes)
        whole.storeBytes(of: CheckSum.of(bytes, at: offset), toByteOffset: bytes.count, as: UInt64.self)
        do {
            try file.write(UnsafeRawBufferPointer(whole), at: offset)
            return PagePlace(offset: offset, length: length)
        } catch {
            give(offset, count)
            refused(error.reason)
            return nil
        }
    }

    /// Lends the bytes of a page for the duration of the call.
    func withBytes<Result>(
        at place: PagePlace, _ body: (UnsafeRawBufferPointer) -> Result
    ) throws(PageFileError) -> Result {
        let count = Int(place.length)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: count + Self.sumBytes, alignment: 8)
        defer { buffer.deallocate() }
        do {
            try file.read(into: buffer, at: place.offset)
        } catch {
            throw .unreadable(error.description)
        }
        let bytes = UnsafeRawBufferPointer(rebasing: buffer[..<count])
        guard buffer.loadUnaligned(fromByteOffset: count, as: UInt64.self) == CheckSum.of(bytes, at: place.offset)
        else {
            throw .unreadable("the disk gave back other bytes than were written")
        }
        return body(bytes)
    }

    /// Nobody reads the page any more.
    func free(_ place: PagePlace) { give(place.offset, Int(place.length) + Self.sumBytes) }

    private func give(_ offset: Int64, _ count: Int) {
        extents.withLock { extents in
            // Under the lock: who takes the next part writes it after that.
            if extents.give(offset, count) { file.empty() }
        }
    }

    /// Whether it has taken all that it was given lately.
    var hasRoom: Bool {
        let last = refusedAt.load(ordering: .relaxed)
        return last == .min || now() - last >= Self.fullMilliseconds
    }

    private func refused(_ reason: String) {
        let now = now()
        refusedAt.store(now, ordering: .relaxed)
        let last = toldAt.load(ordering: .relaxed)
        guard last == .min || now - last >= Self.tellMilliseconds,
            toldAt.compareExchange(expected: last, desired: now, ordering: .relaxed).exchanged
        else { return }
        logger.warning(
            "the page file takes no more, and trees stay in memory beyond --tree-memory",
            [("reason", reason), ("bytes", "\(usedBytes)")])
    }
}

/// Why a page can't be had.
enum PageFileError: Error, CustomStringConvertible {
    case unreadable(String)

    var description: String {
        switch self {
        case .unreadable(let reason): reason
        }
    }
}

/// Which parts of a file of pages are used. A value; its owner locks.
///
/// Sizes are rounded up to one of eight to the doubling, so that what one page leaves another can have; an eighth is lost at most.
struct PageExtents {
    /// What the file may have.
    let limit: Int64
    /// Behind the last part that was ever used.
    private(set) var end: Int64 = 0
    /// Bytes of the parts that are used.
    private(set) var used: Int64 = 0
    /// Parts that are free, by their size.
    private var free: [Int64: [Int64]] = [:]

    init(limit: Int64) { self.limit = limit }

    private static let least = 512

    /// The size of the part for so many bytes.
    static func size(for count: Int) -> Int64 {
        guard count > least else { return Int64(least) }
        let step = 1 << (Int.bitWidth - 1 - count.leadingZeroBitCount - 3)
        return Int64((count + step - 1) / step * step)
    }

    /// A part for so many bytes; nil where the file has all that it may have.
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

    /// Gives a part back. True when nothing is used any more: then all that was written may go.
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

/// A sum of 64 bits over bytes that are kept outside of memory: against damage, not against people.
enum CheckSum {
    /// Eight bytes at a time, each multiplied in, with the upper half mixed into the lower.
    ///
    /// - Parameter place: is a part of the sum: bytes from elsewhere have another.
    static func of(_ bytes: UnsafeRawBufferPointer, at place: Int64 = 0) -> UInt64 {
        var sum: UInt64 = 0xCBF2_9CE4_8422_2325 ^ UInt64(bytes.count) ^ (UInt64(bitPattern: place) << 20)
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
