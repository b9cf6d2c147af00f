import Glibc

/// The text of a Date header (IMF-fixdate), made again only when the second changes.
struct HTTPDate {
    private(set) var second: time_t = -1
    /// `Sun, 06 Nov 1994 08:49:37 GMT`: always 29 bytes.
    private(set) var bytes: [UInt8] = []

    /// Brings the text up to `now` (seconds since 1970); cheap where the second is still the same.
    @inline(__always)
    mutating func update(to now: time_t) {
        if now != second { format(now) }
    }

    private mutating func format(_ now: time_t) {
        second = now
        var parts = tm()
        var now = now
        gmtime_r(&now, &parts)
        bytes.removeAll(keepingCapacity: true)
        func three(_ names: StaticString, _ index: Int32) {
            bytes.append(contentsOf: UnsafeBufferPointer(start: names.utf8Start + Int(index) * 3, count: 3))
        }
        func two(_ value: Int32) {
            bytes.append(0x30 + UInt8(truncatingIfNeeded: value / 10 % 10))
            bytes.append(0x30 + UInt8(truncatingIfNeeded: value % 10))
        }
        three("SunMonTueWedThuFriSat", parts.tm_wday)
        bytes.append(contentsOf: [0x2C, 0x20])
        two(parts.tm_mday)
        bytes.append(0x20)
        three("JanFebMarAprMayJunJulAugSepOctNovDec", parts.tm_mon)
        bytes.append(0x20)
        let year = parts.tm_year + 1900
        two(year / 100)
        two(year % 100)
        bytes.append(0x20)
        two(parts.tm_hour)
        bytes.append(0x3A)
        two(parts.tm_min)
        bytes.append(0x3A)
        two(parts.tm_sec)
        bytes.append(contentsOf: [0x20, 0x47, 0x4D, 0x54])
    }
}
