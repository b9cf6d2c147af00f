import Glibc

/// An IP address with a port, in the system's form.
struct SocketAddress: Sendable, Equatable {
    let family: Int32
    let bytes: [UInt8]

    /// Looks up a name, or parses an address. Blocks, possibly for long. The result alternates between the address
    /// families, so that an unreachable family costs one try.
    static func lookUp(_ host: String, port: UInt16) -> Result<[SocketAddress], LookupFailure> {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        hints.ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV
        var list: UnsafeMutablePointer<addrinfo>?
        var status = getaddrinfo(host, String(port), &hints, &list)
        if status != 0, status != EAI_AGAIN {
            // A machine with only a loopback interface needs a look-up without AI_ADDRCONFIG.
            hints.ai_flags = AI_NUMERICSERV
            status = getaddrinfo(host, String(port), &hints, &list)
        }
        guard status == 0 else {
            return .failure(LookupFailure(reason: String(cString: gai_strerror(status))))
        }
        defer { freeaddrinfo(list) }
        var found: [SocketAddress] = []
        var next = list
        while let entry = next {
            if let pointer = entry.pointee.ai_addr {
                let raw = UnsafeRawBufferPointer(start: pointer, count: Int(entry.pointee.ai_addrlen))
                let address = SocketAddress(family: entry.pointee.ai_family, bytes: Array(raw))
                if !found.contains(address) { found.append(address) }
            }
            next = entry.pointee.ai_next
        }
        return .success(byTurns(found))
    }

    static func byTurns(_ addresses: [SocketAddress]) -> [SocketAddress] {
        guard let first = addresses.first else { return [] }
        var same = addresses.filter { $0.family == first.family }[...]
        var other = addresses.filter { $0.family != first.family }[...]
        var ordered: [SocketAddress] = []
        while let address = same.popFirst() {
            ordered.append(address)
            if let address = other.popFirst() { ordered.append(address) }
        }
        return ordered + other
    }

    /// Begins to connect a non-blocking socket. Returns the descriptor, or the error.
    func connect(unacknowledgedTimeout: Int64) -> Result<Int32, SystemError> {
        let descriptor = socket(
            family, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return .failure(SystemError(number: errno)) }
        Self.set(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, 1)
        Self.set(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1)
        Self.set(descriptor, Int32(IPPROTO_TCP), TCP_USER_TIMEOUT, Int32(clamping: unacknowledgedTimeout))
        // The limit keeps unsent bytes in this process, so that a writable socket shows that the peer acknowledges
        // bytes.
        Self.set(descriptor, Int32(IPPROTO_TCP), TCP_NOTSENT_LOWAT, 128 * 1024)
        let result = bytes.withUnsafeBytes { raw -> Int32 in
            guard let pointer = raw.baseAddress?.assumingMemoryBound(to: sockaddr.self) else { return -1 }
            return Glibc.connect(descriptor, pointer, socklen_t(raw.count))
        }
        if result == 0 || errno == EINPROGRESS { return .success(descriptor) }
        let error = SystemError(number: errno)
        close(descriptor)
        return .failure(error)
    }

    private static func set(_ descriptor: Int32, _ level: Int32, _ option: Int32, _ value: Int32) {
        var value = value
        _ = setsockopt(descriptor, level, option, &value, socklen_t(MemoryLayout<Int32>.size))
    }
}

/// The reason why a name has no address.
struct LookupFailure: Error, Sendable, Equatable {
    let reason: String
}

/// A system error, by its number.
struct SystemError: Error, Sendable, Equatable, CustomStringConvertible {
    let number: Int32

    var description: String { String(cString: strerror(number)) }
}
