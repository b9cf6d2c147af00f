public import Runtime
public import TLS

/// The settings of an `HTTPServer`. Times are in milliseconds, sizes in bytes.
public struct HTTPServerSettings: Sendable {
    /// Addresses for plain HTTP; every event loop listens at every address. Default: 127.0.0.1, any free port.
    public var addresses = [ListenAddress(host: "127.0.0.1", port: 0)]
    /// Addresses for TLS; they need `tls`. Default: none.
    public var tlsAddresses: [ListenAddress] = []
    /// The certificate for TLS.
    public var tls: TLSIdentity?
    /// Maximum time from accepting a TLS connection to the end of its handshake; then it is closed silently. Default 10
    /// s.
    public var tlsHandshakeTimeoutMilliseconds: Milliseconds = 10_000
    /// Number of event loops, one thread each. Default 1.
    public var loops = 1
    /// Whether other processes of the same user may listen at the same port at the same time (a rolling restart).
    /// Default false: a second server on the port is refused with "in use".
    public var sharesPorts = false
    /// Length of the kernel's queue of connections waiting to be accepted. Default 4096.
    public var backlog: Int32 = 4096
    /// Maximum number of open connections of all loops; a connection over it gets 503 and is closed. Default 50,000.
    public var maxConnections = 50_000
    /// Maximum number of open connections from one IPv4 address or one IPv6 /64 network; a connection over it gets 429
    /// and is closed. Default nil: only `maxConnections` applies.
    public var maxConnectionsPerAddress: Int?
    /// Networks exempt from the limits by address, such as proxies with many clients.
    public var unlimitedNetworks: [IPNetwork] = []

    /// Maximum size of request line and headers together; over it 431. At most 80 KiB (the parser's own limit). Default
    /// 64 KiB.
    public var maxHeaderBytes = 64 * 1024
    /// Maximum number of header lines in one request; over it 431. Default 100.
    public var maxHeaderCount = 100
    /// Maximum size of the request target; over it 414. Default 32 KiB.
    public var maxTargetBytes = 32 * 1024
    /// Maximum size of one request's body; over it 413, based on Content-Length before the body is read. Default 16
    /// MiB.
    public var maxBodyBytes = 16 * 1024 * 1024
    /// Maximum body size unless the handler allows the sender more (`HTTPLoopHandler.allowsLargeBody`); over it 413.
    /// Default 16 MiB.
    public var maxPlainBodyBytes = 16 * 1024 * 1024
    /// The memory budget of all bodies being received or answered, shared with other users of the budget; over it 503
    /// with Retry-After. Default 256 MiB.
    public var memory = MemoryBudget(bytes: 256 * 1024 * 1024)
    /// The memory budget of all unsent responses and stream output; over it 503 with Retry-After, or the end of a
    /// stream. Default 256 MiB.
    public var output = OutputBudget(bytes: 256 * 1024 * 1024)

    /// Maximum time from a request's first byte to the end of its headers; over it 408 and close. Default 15 s.
    public var headerTimeoutMilliseconds: Milliseconds = 15_000
    /// Maximum time for a body in addition to its length divided by `minBodyBytesPerSecond`; over it 408 and close.
    /// Default 15 s.
    public var bodyTimeoutMilliseconds: Milliseconds = 15_000
    /// The minimum rate of a body once `bodyTimeoutMilliseconds` is used up. Default 1 KiB a second.
    public var minBodyBytesPerSecond = 1024
    /// How long a connection may wait for its next request; then it is closed silently. Default 75 s.
    public var idleTimeoutMilliseconds: Milliseconds = 75_000
    /// How long a peer may leave queued output unread, without reading one byte; then it is disconnected. Default 30 s.
    public var writeStallTimeoutMilliseconds: Milliseconds = 30_000
    /// How long further input is discarded after the last response of a connection, so that the peer can still read
    /// that response (a socket closed with unread input is reset). Default 2 s.
    public var lingerTimeoutMilliseconds: Milliseconds = 2_000

    /// How long one task may block a loop before `onLongStall` is called. Default 100 ms; 0 disables the calls.
    public var longStallMilliseconds: Milliseconds = 100
    /// Called on the loop's thread after a stall with the loop's name, the main cause, the nanoseconds, and the number
    /// of stalls since the last call.
    public var onLongStall: @Sendable (_ loop: String, _ kind: String, UInt64, _ count: Int) -> Void = { _, _, _, _ in
    }

    /// Returns the body of an error reply of the server itself (4xx and 5xx). Called on loop threads; must not block.
    public var errorBody: @Sendable (_ status: Int, _ text: String) -> (contentType: String, body: [UInt8]) = {
        _, text in
        ("application/json; charset=utf-8", Array("{\n  \"error\" : \"\(text)\"\n}\n".utf8))
    }

    /// Creates settings with all defaults.
    public init() {}

    /// Returns the errors of the settings, one sentence each.
    func mistakes() -> [String] {
        var found: [String] = []
        func need(_ holds: Bool, _ sentence: String) { if !holds { found.append(sentence) } }
        need(!addresses.isEmpty || !tlsAddresses.isEmpty, "addresses is empty")
        need(tlsAddresses.isEmpty || tls != nil, "tlsAddresses needs a certificate in tls")
        need(maxConnectionsPerAddress ?? 1 > 0, "maxConnectionsPerAddress must be positive")
        need((1...256).contains(loops), "loops must be 1...256")
        need(backlog > 0, "backlog must be positive")
        need(maxConnections > 0, "maxConnections must be positive")
        need((256...Self.parserHeaderLimit).contains(maxHeaderBytes), "maxHeaderBytes must be 256...81920")
        need(maxHeaderCount > 0, "maxHeaderCount must be positive")
        need(maxTargetBytes > 0, "maxTargetBytes must be positive")
        need(maxBodyBytes >= 0, "maxBodyBytes must not be negative")
        need(maxPlainBodyBytes >= 0, "maxPlainBodyBytes must not be negative")
        need(minBodyBytesPerSecond > 0, "minBodyBytesPerSecond must be positive")
        for (name, value) in [
            ("headerTimeoutMilliseconds", headerTimeoutMilliseconds),
            ("bodyTimeoutMilliseconds", bodyTimeoutMilliseconds), ("idleTimeoutMilliseconds", idleTimeoutMilliseconds),
            ("writeStallTimeoutMilliseconds", writeStallTimeoutMilliseconds),
            ("lingerTimeoutMilliseconds", lingerTimeoutMilliseconds),
            ("tlsHandshakeTimeoutMilliseconds", tlsHandshakeTimeoutMilliseconds),
        ] {
            need((1...86_400_000).contains(value), "\(name) must be 1...86400000")
        }
        return found
    }

    /// The parser counts header bytes itself and stops at this (HTTP_MAX_HEADER_SIZE).
    static let parserHeaderLimit = 80 * 1024

    /// The interval between checks of deadlines: one second, or less if a timeout is short.
    var deadlineTickMilliseconds: Milliseconds {
        let shortest = min(
            headerTimeoutMilliseconds, bodyTimeoutMilliseconds, idleTimeoutMilliseconds, writeStallTimeoutMilliseconds,
            lingerTimeoutMilliseconds, tlsHandshakeTimeoutMilliseconds)
        return min(1000, max(10, shortest / 4))
    }
}
