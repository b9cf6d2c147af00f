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
