import CEvent
import Glibc

/// Where a connection comes from, as it was when the connection was accepted (24 bytes, no String until asked for).
struct PeerAddress: Sendable, Hashable {
    private var high: UInt64 = 0
    private var low: UInt64 = 0
    private(set) var port: UInt16 = 0
    private var isVersion4 = false

    init(_ storage: borrowing sockaddr_storage) {
        switch Int32(storage.ss_family) {
        case AF_INET:
            let four = withUnsafeBytes(of: storage) { $0.loadUnaligned(as: sockaddr_in.self) }
            low = UInt64(UInt32(bigEndian: four.sin_addr.s_addr))
            port = UInt16(bigEndian: four.sin_port)
            isVersion4 = true
        case AF_INET6:
            let six = withUnsafeBytes(of: storage) { $0.loadUnaligned(as: sockaddr_in6.self) }
            let words = withUnsafeBytes(of: six.sin6_addr) { raw in
                (raw.loadUnaligned(as: UInt64.self), raw.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
            }
            high = UInt64(bigEndian: words.0)
            low = UInt64(bigEndian: words.1)
            port = UInt16(bigEndian: six.sin6_port)
            // An IPv4 peer of a dual-stack listener arrives as ::ffff:a.b.c.d.
            let isMapped = high == 0 && low >> 32 == 0xFFFF
            if isMapped { low &= 0xFFFF_FFFF }
            isVersion4 = isMapped
        default: break
        }
    }

    /// 127.0.0.0/8, ::1 and their mapped forms.
    var isLoopback: Bool {
        isVersion4 ? low >> 24 == 127 : high == 0 && low == 1
    }

    /// The address without its port, in its usual text form.
    var host: String {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(INET6_ADDRSTRLEN)) { text in
            guard let base = text.baseAddress else { return "" }
            let made: UnsafePointer<CChar>?
            if isVersion4 {
                var address = in_addr(s_addr: UInt32(truncatingIfNeeded: low).bigEndian)
                made = inet_ntop(AF_INET, &address, base, socklen_t(INET6_ADDRSTRLEN))
            } else {
                var words = (high.bigEndian, low.bigEndian)
                made = inet_ntop(AF_INET6, &words, base, socklen_t(INET6_ADDRSTRLEN))
            }
            return made.map { String(cString: $0) } ?? ""
        }
    }
}
