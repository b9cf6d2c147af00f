import Glibc
public import Postgres
import PostgresCluster
import Runtime

/// Stands between a gateway and PostgreSQL and cuts connections at chosen moments. Listens at a Unix socket of its own.
public final class CuttingProxy: Sendable {
    /// When a connection is cut.
    public enum Cut: Sendable, Equatable {
        /// A batch comes from the gateway: nothing of it is passed on, so it is not committed.
        case beforeBatchArrives
        /// A batch was committed: its answer is not passed on.
        case beforeCommitAnswer
        /// A batch comes: the gateway is cut off at once, but the batch reaches the server when `releaseHeld` says so.
        case batchArrivesLate
        /// A batch comes: of it so many bytes are passed on, and never what commits it.
        case insideBatch(bytes: Int)
        /// A batch comes: the gateway is cut off at once; the server gets so many bytes, never what commits it, and then hears nothing more, though
        /// its connection stays.
        case silenceInsideBatch(bytes: Int)
        /// A batch comes: from it on all is swallowed, in both directions, as `setSwallowing` says.
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

    /// When held batches are let go by themselves.
    struct Release: Sendable {
        let text: [UInt8]
        var count: Int
    }

    let state = Condition(State())
    private let directory = TemporaryFolder.path("proxy")
    private let listener: Int32
    private let target: String
    private let original: PostgresURL

    /// Between clients and the test cluster's server; `url` says which database.
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

    /// The database, by way of this proxy.
    public var url: PostgresURL {
        PostgresURL(
            socketDirectory: directory, user: "pathmirror", database: original.databaseName ?? "")
    }

    /// The name under which a batch's entries are inserted; it stands in every batch.
    public static let batchSign = Array("append_log#".utf8)

    /// Cuts the next `times` connections at that moment.
    ///
    /// - Parameter sign: what stands in the messages that are meant, where it isn't batches.
    public func cutNext(_ cut: Cut, times: Int = 1, at sign: [UInt8] = CuttingProxy.batchSign) {
        state.withLock { state in
            state.cut = cut
            state.sign = sign
            state.remaining = times
        }
    }

    /// How many connections were cut by `cutNext`.
    public var cutCount: Int { state.withLock { $0.done } }

    /// Cuts every connection and refuses new ones, as a server does that is gone; false lets them in again.
    public func setDown(_ isDown: Bool) {
        let pairs = state.withLock { state -> [ProxiedPair] in
            state.isRefusing = isDown
            return isDown ? Array(state.pairs.values) : []
        }
        for pair in pairs { pair.shutDown() }
    }

    /// Swallows whatever comes, in both directions and on new connections, too, and takes in everybody: as a network does
    /// that loses packets without a word. False passes on what comes on connections that have lost nothing yet.
    public func setSwallowing(_ isSwallowing: Bool) { state.withLock { $0.isSwallowing = isSwallowing } }

    /// How many connections have lost something so.
    public var lossCount: Int { state.withLock { $0.losses } }

    func noteLoss() { state.withLock { $0.losses += 1 } }

    var isSwallowing: Bool { state.withLock { $0.isSwallowing } }

    /// How many held batches there are.
    public var heldCount: Int { state.withLock { $0.held.count } }

    /// Lets the server have the batches that were held back, and waits until it has ended their sessions.
    public func releaseHeld() {
        let held = state.withLock { state -> [HeldBatch] in
            defer { state.held = [] }
            return state.held
        }
        for batch in held {
            _ = UnixSocket.send(batch.bytes[...], to: batch.server)
            // The session ends when it has done what came; until then it answers.
            shutdown(batch.server, Int32(SHUT_WR))
            while UnixSocket.receive(from: batch.server) != nil {}
            close(batch.server)
        }
    }

    /// Lets the held batches go before the next message that holds `text` comes to the server: of several such, the one
    /// that `occurrence` says, from 1.
    public func releaseHeld(before text: String, occurrence: Int) {
        state.withLock { $0.release = Release(text: Array(text.utf8), count: occurrence) }
    }

    /// To be called with what comes from a client before it is passed on.
    func messageComes(_ bytes: [UInt8]) {
        let isDue = state.withLock { state -> Bool in
            guard let release = state.release, !state.held.isEmpty, bytes.contains(release.text) else { return false }
            state.release = release.count > 1 ? Release(text: release.text, count: release.count - 1) : nil
            return release.count <= 1
        }
        if isDue { releaseHeld() }
    }

    /// Ends everything. Must be called.
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

    /// Takes a client in. False when the proxy is stopping.
    private func serve(_ client: Int32) -> Bool {
        let (isStopping, isRefusing) = state.withLock { ($0.isStopping, $0.isRefusing) }
        guard !isStopping, !isRefusing, let server = try? UnixSocket.connect(target) else {
            close(client)
            return !isStopping
        }
        let pair = ProxiedPair(client: client, server: server, self)
        // Looked at again: it may have gone down while the server was being reached.
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

    /// What is cut at.
    var sign: [UInt8] { state.withLock { $0.sign } }

    /// The cut that is due when a batch comes, which is thereby used up. Those that wait for the answer stay.
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

/// A system call of the proxy's that failed.
struct ProxyFailure: Error {
    let step: String
    let code: Int32
}
