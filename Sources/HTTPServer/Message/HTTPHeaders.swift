import CHTTPParser
import Glibc

/// Response headers, stored as encoded bytes. Create common sets once and reuse them: a response with existing headers
/// costs one copy of their bytes and no allocation.
///
/// The server adds Content-Length, Connection, Transfer-Encoding and Date; do not add them.
public struct HTTPHeaders: Sendable, ExpressibleByDictionaryLiteral {
    /// `Name: value\r\n` for each header.
    private(set) var encoded: [UInt8] = []

    /// Creates an empty set of headers.
    public init() {}

    /// Creates headers from a literal such as `["Content-Type": "text/plain"]`, in its order.
    public init(dictionaryLiteral elements: (String, String)...) {
        for (name, value) in elements { add(name, value) }
    }

    /// Creates headers from pairs, in their order.
    public init(_ pairs: [(String, String)]) {
        for (name, value) in pairs { add(name, value) }
    }

    /// Adds a header. A CR, LF or NUL in it becomes a space, so that text of a peer can't add a header line.
    public mutating func add(_ name: String, _ value: String) {
        append(name.utf8)
        encoded.append(contentsOf: [0x3A, 0x20])
        append(value.utf8)
        encoded.append(contentsOf: [0x0D, 0x0A])
    }

    /// Adds a header whose value is a number.
    public mutating func add(_ name: String, _ value: UInt64) {
        // An existing set is copied once, with capacity for the header that follows.
        encoded.reserveCapacity(encoded.count + name.utf8.count + 24)
        append(name.utf8)
        encoded.append(contentsOf: [0x3A, 0x20])
        var digits = DecimalDigits(value)
        digits.withBytes { encoded.append(contentsOf: $0) }
        encoded.append(contentsOf: [0x0D, 0x0A])
    }

    /// Returns these headers followed by another one.
    public func adding(_ name: String, _ value: String) -> HTTPHeaders {
        var copy = self
        copy.add(name, value)
        return copy
    }

    public var isEmpty: Bool { encoded.isEmpty }

    private mutating func append(_ text: String.UTF8View) {
        for byte in text {
            encoded.append(byte == 0x0D || byte == 0x0A || byte == 0 ? 0x20 : byte)
        }
    }
}

/// Encoded status lines such as `HTTP/1.1 200 OK\r\n` for common statuses.
enum StatusLine {
    static func ready(_ status: Int) -> StaticString? {
        switch status {
        case 200: "HTTP/1.1 200 OK\r\n"
        case 201: "HTTP/1.1 201 Created\r\n"
        case 204: "HTTP/1.1 204 No Content\r\n"
        case 304: "HTTP/1.1 304 Not Modified\r\n"
        case 400: "HTTP/1.1 400 Bad Request\r\n"
        case 401: "HTTP/1.1 401 Unauthorized\r\n"
        case 403: "HTTP/1.1 403 Forbidden\r\n"
        case 404: "HTTP/1.1 404 Not Found\r\n"
        case 412: "HTTP/1.1 412 Precondition Failed\r\n"
        default: nil
        }
    }

    /// Returns the reason phrase; empty for an unregistered status, which HTTP permits.
    static func reason(_ status: Int) -> String {
        guard (100..<600).contains(status),
            let text = http_status_str(http_status(rawValue: UInt32(status)))
        else { return "" }
        let reason = String(cString: text)
        return reason == "<unknown>" ? "" : reason
    }
}

/// The text of a Date header (IMF-fixdate), formatted again only when the second changes.
struct HTTPDate {
    private(set) var second: time_t = -1
    /// `Sun, 06 Nov 1994 08:49:37 GMT`: always 29 bytes.
    private(set) var bytes: [UInt8] = []

    /// Updates the text to `now` (seconds since 1970); cheap if the second is unchanged.
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

/// The decimal digits of a number, created without text or an allocation.
struct DecimalDigits {
    private var storage: InlineArray<20, UInt8> = .init(repeating: 0x30)
    private var start = 20

    init(_ value: UInt64) {
        var rest = value
        repeat {
            start -= 1
            storage[start] = 0x30 + UInt8(truncatingIfNeeded: rest % 10)
            rest /= 10
        } while rest != 0
    }

    mutating func withBytes<R>(_ body: (UnsafeRawBufferPointer) -> R) -> R {
        let start = start
        return withUnsafeBytes(of: &storage) { body(UnsafeRawBufferPointer(rebasing: $0[start...])) }
    }
}
