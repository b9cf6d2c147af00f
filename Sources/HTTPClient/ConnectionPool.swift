internal import CCurl
internal import Glibc
internal import Runtime

/// Connections that are kept for further requests with the same pool name only. Belongs to the client's thread.
///
/// libcurl keeps the connections; the pool knows their sockets.
final class ConnectionPool {
    /// The two ends of a connection, as libcurl reports them.
    struct Ends: Hashable {
        let local: String
        let localPort: Int32
        let remote: String
        let remotePort: Int32
    }

    let name: String
    let share: UnsafeMutableRawPointer
    /// The number of requests that use the pool now.
    var active = 0
    private var sockets: [Ends: Int32] = [:]
    private var ends: [Int32: Ends] = [:]
    private var isClosed = false
    private let count: SocketCount

    /// The number of open sockets of all pools.
    final class SocketCount {
        var open = 0
    }

    /// Returns nil if there is no memory.
    init?(_ name: String, _ count: SocketCount) {
        guard let share = curl_share_init() else { return nil }
        guard pathmirror_curl_share_connections(share) == CURLSHE_OK else {
            curl_share_cleanup(share)
            return nil
        }
        self.name = name
        self.share = share
        self.count = count
    }

    /// Closes all connections. No request may use the pool any longer.
    func close() {
        guard !isClosed else { return }
        isClosed = true
        curl_share_cleanup(share)
    }

    deinit { close() }

    /// Restricts a transfer to the pool's connections. libcurl holds a pointer to the pool as long as it has connections.
    func attach(_ easy: UnsafeMutableRawPointer) -> Bool {
        pathmirror_curl_set_pointer(easy, CURLOPT_SHARE, share) == CURLE_OK
            && pathmirror_curl_set_socket_closer(easy, Self.close, Unmanaged.passUnretained(self).toOpaque())
                == CURLE_OK
    }

    /// Opens a socket for one of the pool's connections.
    func open(_ family: Int32, _ type: Int32, _ transport: Int32) -> Int32 {
        let opened = Glibc.socket(family, type | Int32(SOCK_CLOEXEC.rawValue), transport)
        if opened >= 0 { count.open += 1 }
        return opened
    }

    /// Returns the socket of a connection that has carried a request, or nil for a new connection.
    func socket(between pair: Ends) -> Int32? { sockets[pair] }

    /// Records the first request on a connection.
    func use(_ socket: Int32, between pair: Ends) {
        sockets[pair] = socket
        ends[socket] = pair
    }

    private static let close: curl_closesocket_callback = { context, socket in
        if let context {
            let pool = Unmanaged<ConnectionPool>.fromOpaque(context).takeUnretainedValue()
            pool.count.open -= 1
            if let pair = pool.ends.removeValue(forKey: socket) { pool.sockets[pair] = nil }
        }
        return Glibc.close(socket)
    }
}

/// The pools of a client, and the limits on the connections they keep. Belongs to the client's thread.
final class ConnectionPools {
    private let multi: UnsafeMutableRawPointer
    /// The maximum number of kept connections of all pools, and of pools.
    private let most: Int
    private let count = ConnectionPool.SocketCount()
    private var pools: [String: ConnectionPool] = [:]
    /// The pools without requests, by the time when their last request ended.
    private var idle = IndexedHeap<String, Milliseconds>()
    private var active = 0
    private static let idleMilliseconds: Milliseconds = 60_000

    init(_ multi: UnsafeMutableRawPointer, most: Int) {
        self.multi = multi
        self.most = max(1, most)
    }

    /// Returns the pool for a request, or nil if there is no memory. The caller must call `leave` afterwards.
    func enter(_ name: String) -> ConnectionPool? {
        guard let pool = pools[name] ?? ConnectionPool(name, count) else { return nil }
        if pools.updateValue(pool, forKey: name) == nil { divide() }
        idle.remove(name)
        pool.active += 1
        active += 1
        return pool
    }

    /// Records that a request has ended. Its transfer must already be freed.
    func leave(_ pool: ConnectionPool, at now: Milliseconds) {
        pool.active -= 1
        active -= 1
        if pool.active == 0 { idle.set(pool.name, to: now) }
    }

    /// Closes the pools that have been idle for too long, and the longest idle pools while the limits are exceeded.
    func tidy(at now: Milliseconds) {
        while let (name, since) = idle.first,
            now - since >= Self.idleMilliseconds || pools.count > most || count.open - active > most
        {
            idle.remove(name)
            pools.removeValue(forKey: name)?.close()
            divide()
        }
    }

    /// The time at which the next pool has been idle for too long.
    var nextTidying: Milliseconds? { idle.first.map { $0.priority + Self.idleMilliseconds } }

    /// Divides the connections among the pools. libcurl closes a pool's oldest connection when a connection is returned and the
    /// pool has more than its share.
    private func divide() {
        _ = pathmirror_curl_multi_set_long(multi, CURLMOPT_MAXCONNECTS, max(1, most / max(1, pools.count)))
    }

    func closeAll() {
        for pool in pools.values { pool.close() }
        pools = [:]
    }
}
