public import Runtime
public import TLS

/// Everything that can be set on an `HTTPServer`. Times are in milliseconds, sizes in bytes.
public struct HTTPServerSettings: Sendable {
    /// Where to listen; every event loop listens at every address. Default: 127.0.0.1, any free port.
    public var addresses = [ListenAddress(host: "127.0.0.1", port: 0)]
    /// Where to listen for TLS; needs `tls`. Default: nowhere.
    public var tlsAddresses: [ListenAddress] = []
    /// By what certificate.
    public var tls: TLSIdentity?
    /// From a connection over TLS to the end of its handshake; then it is closed silently. Default 10 s.
    public var tlsHandshakeTimeoutMilliseconds: Milliseconds = 10_000
    /// Number of event loops, one thread each. Default 1.
    public var loops = 1
    /// Whether other processes of the same user may listen at the same port at the same time (a rolling restart).
    /// Default false: a second server on the port is refused with "in use".
    public var sharesPorts = false
    /// Length of the kernel's queue of connections waiting to be accepted. Default 4096.
    public var backlog: Int32 = 4096
    /// Connections open at once, all loops together; one over it gets 503 and is closed. Default 50,000.
    public var maxConnections = 50_000
    /// Connections open at once from one IPv4 address or one IPv6 /64 network; one over it gets 429 and is closed.
    /// Default nil: no bound but `maxConnections`.
    public var maxConnectionsPerAddress: Int?
    /// Networks whose connections that does not count (proxies that speak for many).
    public var unlimitedNetworks: [IPNetwork] = []

    /// Request line and headers together; over it 431. At most 80 KiB (the parser's own limit). Default 64 KiB.
    public var maxHeaderBytes = 64 * 1024
    /// Header lines in one request; over it 431. Default 100.
    public var maxHeaderCount = 100
    /// Bytes in the request target; over it 414. Default 32 KiB.
    public var maxTargetBytes = 32 * 1024
    /// Bytes in one request's body; over it 413, judged on Content-Length before a byte is read. Default 16 MiB.
    public var maxBodyBytes = 16 * 1024 * 1024
    /// Bodies over this are received only from whom the handler lets send more (`HTTPLoopHandler.allowsLargeBody`);
    /// others' get 413. Default 16 MiB.
    public var maxPlainBodyBytes = 16 * 1024 * 1024
    /// What all bodies being received or answered take, among others' data; over it 503 with Retry-After. Default 256 MiB.
    public var memory = MemoryBudget(bytes: 256 * 1024 * 1024)
    /// What all responses and streams together hold that wait for their peers; over it 503 with Retry-After, or the end of a stream. Default
    /// 256 MiB.
    public var output = OutputBudget(bytes: 256 * 1024 * 1024)

    /// From a request's first byte to the end of its headers; over it 408 and close. Default 15 s.
    public var headerTimeoutMilliseconds: Milliseconds = 15_000
    /// What a body may take beyond its length at `minBodyBytesPerSecond`; over it 408 and close. Default 15 s.
    public var bodyTimeoutMilliseconds: Milliseconds = 15_000
    /// The slowest body that is waited for once `bodyTimeoutMilliseconds` is used up. Default 1 KiB a second.
    public var minBodyBytesPerSecond = 1024
    /// How long a connection may wait for its next request; then it is closed silently. Default 75 s.
    public var idleTimeoutMilliseconds: Milliseconds = 75_000
    /// How long a peer may leave queued output unread, without taking one byte; then it is cut off. Default 30 s.
    public var writeStallTimeoutMilliseconds: Milliseconds = 30_000
    /// After the last response of a connection: how long its further input is thrown away so that the peer can still
    /// read that response (a socket closed with unread input is reset). Default 2 s.
    public var lingerTimeoutMilliseconds: Milliseconds = 2_000

    /// What a loop may do without a pause before `onLongStretch` is told. Default 100 ms; 0: it is told nothing.
    public var longStretchMilliseconds: Milliseconds = 100
    /// Told, on the loop's thread, that it was kept busy for too long: its name, what mostly by, the nanoseconds, and how many
    /// such stretches there were since it was told last.
    public var onLongStretch: @Sendable (_ loop: String, _ kind: String, UInt64, _ count: Int) -> Void = { _, _, _, _ in
    }

    /// Makes the body of a reply that the server itself gives (4xx and 5xx). Called on loop threads; must not block.
    public var errorBody: @Sendable (_ status: Int, _ text: String) -> (contentType: String, body: [UInt8]) = {
        _, text in
        ("application/json; charset=utf-8", Array("{\n  \"error\" : \"\(text)\"\n}\n".utf8))
    }

    /// All defaults.
    public init() {}

    /// The settings' mistakes, one sentence each; empty where there are none.
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

    /// How often deadlines are looked at: once a second, or finer where a timeout is short.
    var deadlineTickMilliseconds: Milliseconds {
        let shortest = min(
            headerTimeoutMilliseconds, bodyTimeoutMilliseconds, idleTimeoutMilliseconds, writeStallTimeoutMilliseconds,
            lingerTimeoutMilliseconds, tlsHandshakeTimeoutMilliseconds)
        return min(1000, max(10, shortest / 4))
    }
}
