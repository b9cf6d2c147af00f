import Wire

/// A server's host and port.
struct ServerAddress: Sendable, Equatable {
    let host: String
    let port: UInt16

    init(host: String, port: UInt16) {
        self.host = host
        self.port = port
    }

    /// Reads `host`, `host:port`, `[v6]` or `[v6]:port`, the forms in which a server names a host. Nil for anything
    /// else.
    init?(_ text: String, isSecure: Bool) {
        guard text.utf8.count <= 300 else { return nil }
        var host = text[...]
        var port: Substring?
        if text.first == "[" {
            guard let end = text.firstIndex(of: "]") else { return nil }
            host = text[text.index(after: text.startIndex)..<end]
            let rest = text[text.index(after: end)...]
            guard rest.isEmpty || rest.first == ":" else { return nil }
            if !rest.isEmpty { port = rest.dropFirst() }
            guard host.contains(":"), host.utf8.allSatisfy({ Self.isHexDigit($0) || $0 == 0x3A || $0 == 0x2E })
            else { return nil }
        } else {
            let parts = text.split(separator: ":", omittingEmptySubsequences: false)
            guard parts.count <= 2, let name = parts.first else { return nil }
            host = name
            if parts.count == 2 { port = parts[1] }
            guard !host.isEmpty, host.utf8.allSatisfy(Self.isNameByte) else { return nil }
        }
        guard let port else {
            self.init(host: String(host), port: isSecure ? 443 : 80)
            return
        }
        guard let number = UInt16(port), number > 0, port.utf8.allSatisfy({ (0x30...0x39).contains($0) })
        else { return nil }
        self.init(host: String(host), port: number)
    }

    /// Letters, digits, hyphens, dots, and the underscore that some internal networks use.
    private static func isNameByte(_ byte: UInt8) -> Bool {
        (0x61...0x7A).contains(byte | 0x20) || (0x30...0x39).contains(byte) || byte == 0x2D || byte == 0x2E
            || byte == 0x5F
    }

    private static func isHexDigit(_ byte: UInt8) -> Bool {
        (0x30...0x39).contains(byte) || (0x61...0x66).contains(byte | 0x20)
    }

    /// Returns the address of a realtime connection (reference: rtdb-protocol 1.1).
    ///
    /// - Parameter session: the previous session, which the server need not keep any longer.
    func address(_ settings: ConnectionSettings, session: String?) -> RealtimeAddress {
        var target = "/.ws?v=5&ns=" + PercentEncoding.encode(settings.namespace.utf8)
        if settings.asksForExtension {
            target += "&\(RealtimeParameters.extensionName)=\(RealtimeParameters.extensionVersion)"
        }
        if let session { target += "&ls=" + PercentEncoding.encode(session.utf8) }
        return RealtimeAddress(host: host, port: port, isSecure: settings.isSecure, target: target)
    }
}
