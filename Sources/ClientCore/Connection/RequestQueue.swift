import Tree
import Wire

/// A request that waits to be sent or answered.
struct QueuedRequest: Sendable {
    enum Content: Sendable {
        case write(PendingWrite, hash: String?)
        case onDisconnect(RequestID, ClientAction)
        case get(RequestID, QuerySpec)
    }

    let content: Content
    /// Whether it was sent over the present connection.
    var isSent = false

    var isGet: Bool { if case .get = content { true } else { false } }

    /// Whether it must not be sent twice: a transaction, whose hash may refer to the value before its own success.
    var isSentOnce: Bool { if case .write(_, .some) = content { true } else { false } }
}

/// Writes, onDisconnect operations and gets in the order of the owner's calls, in which they are sent.
struct RequestQueue: Sendable {
    private var requests: [UInt64: QueuedRequest] = [:]
    private var gets: [RequestID: UInt64] = [:]
    private var lastSerial: UInt64 = 0
    /// Serials of unsent requests, in order; some of the requests may have been removed.
    private var unsentWrites = SerialQueue()
    private var unsentGets = SerialQueue()

    var count: Int { requests.count }

    mutating func add(_ content: QueuedRequest.Content) {
        lastSerial += 1
        requests[lastSerial] = QueuedRequest(content: content)
        if case .get(let id, _) = content {
            gets[id] = lastSerial
            unsentGets.append(lastSerial)
        } else {
            unsentWrites.append(lastSerial)
        }
    }

    /// Returns the next request to send and marks it as sent.
    mutating func next(writes: Bool) -> (serial: UInt64, content: QueuedRequest.Content)? {
        let write = writes ? unsentWrites.first { requests[$0] != nil } : nil
        let get = unsentGets.first { requests[$0] != nil }
        guard let serial = [write, get].compactMap({ $0 }).min() else { return nil }
        if serial == write { unsentWrites.removeFirst() } else { unsentGets.removeFirst() }
        guard let request = requests[serial] else { return nil }
        requests[serial]?.isSent = true
        return (serial, request.content)
    }

    subscript(serial: UInt64) -> QueuedRequest.Content? { requests[serial]?.content }

    /// Removes a request that is finished; returns nil if it was removed before.
    mutating func remove(_ serial: UInt64) -> QueuedRequest.Content? {
        guard let request = requests.removeValue(forKey: serial) else { return nil }
        if case .get(let id, _) = request.content { gets[id] = nil }
        return request.content
    }

    mutating func removeGet(_ id: RequestID) {
        if let serial = gets[id] { _ = remove(serial) }
    }

    /// Removes everything except gets, and returns it in order.
    mutating func removeWrites() -> [QueuedRequest.Content] {
        let serials = requests.filter { !$0.value.isGet }.keys.sorted()
        unsentWrites = SerialQueue()
        return serials.compactMap { remove($0) }
    }

    /// Handles a connection that has ended or could not be opened: all gets are lost, and sent requests that must not
    /// be sent twice. All others are to be sent (again).
    /// Returns the lost requests in order.
    mutating func connectionEnded() -> [QueuedRequest.Content] {
        let lost = requests.filter { $0.value.isGet || ($0.value.isSent && $0.value.isSentOnce) }.keys.sorted()
        let contents = lost.compactMap { remove($0) }
        let rest = requests.keys.sorted()
        for serial in rest where requests[serial]?.isSent == true { requests[serial]?.isSent = false }
        unsentWrites = SerialQueue(rest)
        unsentGets = SerialQueue()
        return contents
    }
}

/// Increasing numbers that are removed at the front.
struct SerialQueue: Sendable {
    private var serials: [UInt64]
    private var start = 0

    init(_ serials: [UInt64] = []) { self.serials = serials }

    mutating func append(_ serial: UInt64) { serials.append(serial) }

    /// Returns the first number that is still valid, and drops those before it.
    mutating func first(where isThere: (UInt64) -> Bool) -> UInt64? {
        while start < serials.count {
            if isThere(serials[start]) { return serials[start] }
            removeFirst()
        }
        return nil
    }

    mutating func removeFirst() {
        start += 1
        // Half of the array at a time, so that each number is moved once.
        if start > 64, start * 2 > serials.count {
            serials.removeFirst(start)
            start = 0
        }
    }
}
