import Glibc
public import Postgres
import PostgresCluster
import Runtime

/// A proxy between a gateway and PostgreSQL that cuts connections at chosen moments. Listens at its own Unix socket.
public final class CuttingProxy: Sendable {
    /// The moment at which a connection is cut.
    public enum Cut: Sendable, Equatable {
        /// A batch arrives from the gateway. The proxy forwards none of it, so it is not committed.
        case beforeBatchArrives
        /// A batch was committed. The proxy does not forward the answer.
        case beforeCommitAnswer
        /// A batch arrives. The proxy cuts off the gateway immediately, but forwards the batch to the server on
        /// `releaseHeld`.
        case batchArrivesLate
        /// A batch arrives. The proxy forwards this many bytes of it, and never the commit message.
        case insideBatch(bytes: Int)
        /// A batch arrives. The proxy cuts off the gateway immediately, forwards this many bytes to the server, never
        /// the commit message, and then stays silent with the server's connection open.
        case silenceInsideBatch(bytes: Int)
        /// A batch arrives. From then on the proxy swallows all data in both directions, as with `setSwallowing`.
        case silenceFromBatch
    }

    struct State: Sendable {
        var cut: Cut?
        var sign = CuttingProxy.batchSign
        var remaining = 0
        var done = 0
        var isRefusing = false
        var isSwallowing = false
        var losses = 0
        var isStopping = false
        var pairs: [Int32: ProxiedPair] = [:]
        var held: [HeldBatch] = []
        var release: Release?
        var threads: [Thread] = []
    }

    struct HeldBatch: Sendable {
        let server: Int32
        let bytes: [UInt8]
    }

    /// The condition under which held batches are released automatically.
    struct Release: Sendable {
        let text: [UInt8]
        var count: Int
    }

    let state = Condition(State())
    private let directory = TemporaryFolder.path("proxy")
    private let listener: Int32
    private let target: String
    private let original: PostgresURL

    /// Creates a proxy between clients and the test cluster's server, for the database of `url`.
    public init(_ url: PostgresURL) throws {
        original = url
        target = try TestCluster.socketPath()
        guard mkdir(directory, 0o700) == 0 else { throw ProxyFailure(step: "mkdir", code: errno) }
        listener = try UnixSocket.listen(directory + "/.s.PGSQL.5432")
        let thread = Thread(name: "proxy") { [listener, weak self] in
            while true {
                let client = accept(listener, nil, nil)
                guard client >= 0, let self, self.serve(client) else { return }
            }
        }
        state.withLock { $0.threads.append(thread) }
    }

    /// The URL of the database through this proxy.
    public var url: PostgresURL {
        PostgresURL(
            socketDirectory: directory, user: "pathmirror", database: original.databaseName ?? "")
    }

    /// The name of the statement that inserts a batch's entries, which occurs in every batch.
    public static let batchSign = Array("append_log#".utf8)

    /// Cuts the next `times` connections at that moment.
    ///
    /// - Parameter sign: The bytes that identify the affected messages, if not batches.
    public func cutNext(_ cut: Cut, times: Int = 1, at sign: [UInt8] = CuttingProxy.batchSign) {
        state.withLock { state in
            state.cut = cut
            state.sign = sign
            state.remaining = times
        }
    }

    /// The number of connections that `cutNext` has cut.
    public var cutCount: Int { state.withLock { $0.done } }

    /// Cuts every connection and refuses new ones, like a stopped server. False accepts connections again.
    public func setDown(_ isDown: Bool) {
        let pairs = state.withLock { state -> [ProxiedPair] in
            state.isRefusing = isDown
            return isDown ? Array(state.pairs.values) : []
        }
        for pair in pairs { pair.shutDown() }
    }

    /// Accepts all connections and swallows all data in both directions, like a network that loses packets silently.
    /// False forwards data again on connections that have lost nothing.
    public func setSwallowing(_ isSwallowing: Bool) { state.withLock { $0.isSwallowing = isSwallowing } }

    /// The number of connections that have lost data in this way.
    public var lossCount: Int { state.withLock { $0.losses } }

    func noteLoss() { state.withLock { $0.losses += 1 } }

    var isSwallowing: Bool { state.withLock { $0.isSwallowing } }

    /// The number of held batches.
    public var heldCount: Int { state.withLock { $0.held.count } }

    /// Sends held batches to the server, and waits until the server has ended their sessions.
    public func releaseHeld() {
        let held = state.withLock { state -> [HeldBatch] in
            defer { state.held = [] }
            return state.held
        }
        for batch in held {
            _ = UnixSocket.send(batch.bytes[...], to: batch.server)
            // The session ends when it has processed its input. Until then it answers.
            shutdown(batch.server, Int32(SHUT_WR))
            while UnixSocket.receive(from: batch.server) != nil {}
            close(batch.server)
        }
    }

    /// Releases the held batches before the next message that contains `text` reaches the server, or before the one
    /// given by `occurrence`, from 1.
    public func releaseHeld(before text: String, occurrence: Int) {
        state.withLock { $0.release = Release(text: Array(text.utf8), count: occurrence) }
    }

    /// Must be called with data from a client before it is forwarded.
    func messageComes(_ bytes: [UInt8]) {
        let isDue = state.withLock { state -> Bool in
            guard let release = state.release, !state.held.isEmpty, bytes.contains(release.text) else { return false }
            state.release = release.count > 1 ? Release(text: release.text, count: release.count - 1) : nil
            return release.count <= 1
        }
        if isDue { releaseHeld() }
    }

    /// Stops the proxy. Must be called.
    public func stop() {
        releaseHeld()
        let (pairs, threads) = state.withLock { state -> ([ProxiedPair], [Thread]) in
            state.isStopping = true
            defer { state.threads = [] }
            return (Array(state.pairs.values), state.threads)
        }
        for pair in pairs { pair.shutDown() }
        shutdown(listener, Int32(SHUT_RDWR))
        for thread in threads { thread.join() }
        let late = state.withLock { state -> [Thread] in
            defer { state.threads = [] }
            return state.threads
        }
        for thread in late { thread.join() }
        close(listener)
        TemporaryFolder.remove(directory)
    }

    /// Accepts a client. Returns false if the proxy is stopping.
    private func serve(_ client: Int32) -> Bool {
        let (isStopping, isRefusing) = state.withLock { ($0.isStopping, $0.isRefusing) }
        guard !isStopping, !isRefusing, let server = try? UnixSocket.connect(target) else {
            close(client)
            return !isStopping
        }
        let pair = ProxiedPair(client: client, server: server, self)
        // Checks again, because the proxy may have gone down while it connected to the server.
        let isTaken = state.withLock { state -> Bool in
            guard !state.isStopping, !state.isRefusing else { return false }
            state.pairs[client] = pair
            state.threads.append(Thread(name: "proxy-up") { pair.pumpToServer() })
            state.threads.append(Thread(name: "proxy-down") { pair.pumpToClient() })
            return true
        }
        if !isTaken {
            close(client)
            close(server)
        }
        return true
    }

    func ended(_ pair: ProxiedPair) { state.withLock { $0.pairs[pair.client] = nil } }

    /// The bytes at which connections are cut.
    var sign: [UInt8] { state.withLock { $0.sign } }

    /// Takes the cut that is due when a batch arrives. Cuts at an answer remain.
    func takeCutAtBatch() -> Cut? {
        state.withLock { state in
            guard state.remaining > 0, let cut = state.cut, cut != .beforeCommitAnswer else { return nil }
            state.remaining -= 1
            state.done += 1
            return cut
        }
    }

    func takeCutAtAnswer() -> Bool {
        state.withLock { state in
            guard state.remaining > 0, state.cut == .beforeCommitAnswer else { return false }
            state.remaining -= 1
            state.done += 1
            return true
        }
    }

    func hold(_ bytes: [UInt8], for server: Int32) {
        state.withLock { $0.held.append(HeldBatch(server: server, bytes: bytes)) }
    }
}

/// A failed system call of the proxy.
struct ProxyFailure: Error {
    let step: String
    let code: Int32
}
