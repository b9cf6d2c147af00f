import ClientCore
import Glibc
import Runtime
import TLS

/// One connection, from the look-up of the server's name to its end. Confined to its loop's thread.
final class ConnectionRunner {
    enum Stage {
        case lookingUp
        case dialing(Dialer)
        case shakingHands(ConnectedSocket)
        /// The request was sent, and its answer is awaited.
        case upgrading(ConnectedSocket, Upgrade)
        case open(ConnectedSocket)
        /// A close frame was sent, or is about to be; the peer's is awaited.
        case closing(ConnectedSocket)
        case over
    }

    let loop: ClientLoop
    let channel: WebSocketChannel
    let address: RealtimeAddress
    private let observer: @Sendable (TransportEvent) -> Void
    var stage = Stage.lookingUp
    var output = Output()
    var reader: FrameReader
    /// The received part of the answer to the upgrade.
    var head: [UInt8] = []
    /// Whether the socket accepted no more bytes at the last attempt.
    var wasFull = false
    /// Bytes of messages that were delivered and not processed.
    var unprocessedBytes = 0
    var isPaused = false
    private var reportedProgressAt: Int64 = 0
    /// The bytes since the last complete message.
    var unfinishedBytes = 0
    private var openBefore: Int64 = 0

    /// The identifier in the loop's tables.
    var id: ObjectIdentifier { ObjectIdentifier(channel) }

    init(
        _ loop: ClientLoop, _ channel: WebSocketChannel, _ address: RealtimeAddress,
        _ observer: @escaping @Sendable (TransportEvent) -> Void
    ) {
        self.loop = loop
        self.channel = channel
        self.address = address
        self.observer = observer
        reader = FrameReader(maxMessageBytes: loop.settings.maxMessageBytes)
    }

    // MARK: Connecting

    func begin() {
        openBefore = Clock.monotonicMilliseconds + loop.settings.openTimeout
        loop.setDeadline(openBefore, for: self)
        let (host, port, loop, channel) = (address.host, address.port, loop, channel)
        // A slow resolver blocks only this connection.
        let thread = Thread(name: "pathmirror-dns", isVital: false, blocksSignals: true) {
            let addresses = SocketAddress.lookUp(host, port: port)
            loop.call { $0.lookedUp(channel, addresses) }
        }
        if thread.isStarted { thread.detach() } else { end(.unreachable("the system has no more threads")) }
    }

    func lookedUp(_ result: Result<[SocketAddress], LookupFailure>) {
        guard case .lookingUp = stage else { return }
        switch result {
        case .failure(let failure): end(.unreachable("\(address.host): \(failure.reason)"))
        case .success(let addresses):
            let dialer = Dialer(loop, self, addresses)
            stage = .dialing(dialer)
            dialed(dialer.resume(now: Clock.monotonicMilliseconds))
        }
    }

    private func dialed(_ result: Dialer.Result) {
        switch result {
        case .waiting(let next): loop.setDeadline(min(next ?? openBefore, openBefore), for: self)
        case .failed(let reason): end(.unreachable("\(address.host) port \(address.port): \(reason)"))
        case .connected(let descriptor):
            loop.setDeadline(openBefore, for: self)
            connected(descriptor)
        }
    }

    private func connected(_ descriptor: Int32) {
        var session: TLSSession?
        if address.isSecure {
            session = loop.trust?.makeSession(descriptor: descriptor, host: address.host)
            guard session != nil else {
                close(descriptor)
                return end(.insecure("\(address.host) is not a name for which a certificate can be checked"))
            }
        }
        guard let link = ConnectedSocket(descriptor, session, loop, for: self) else {
            return end(.unreachable("the system has no more file descriptors"))
        }
        if session == nil { return upgrade(link) }
        stage = .shakingHands(link)
        shakeHands(link)
    }

    private func shakeHands(_ link: ConnectedSocket) {
        switch link.stream.shakeHands() {
        case .needsInput: link.wait(read: true, write: false)
        case .needsOutput: link.wait(read: false, write: true)
        case .done: upgrade(link)
        case .plainHTTP, .failed: end(.insecure(link.stream.failure ?? "the handshake failed"))
        }
    }

    private func upgrade(_ link: ConnectedSocket) {
        var random = SystemRandomNumberGenerator()
        let upgrade = Upgrade(nonce: (0..<16).map { _ in UInt8.random(in: 0...255, using: &random) })
        stage = .upgrading(link, upgrade)
        let isClean = { (text: String) in !text.utf8.contains { $0 == 13 || $0 == 10 || $0 == 0 } }
        let headers = loop.settings.headers.filter { isClean($0.name) && isClean($0.value) }
        guard isClean(address.target), isClean(address.host) else { return end(.unreachable("the address is invalid")) }
        output.addRaw(upgrade.request(address, headers: headers))
        transfer(link)
    }

    // MARK: Events

    func isReady(_ ready: SocketPoller.Ready) {
        switch stage {
        case .lookingUp, .over: break
        case .dialing(let dialer): dialed(dialer.isReady(ready, now: Clock.monotonicMilliseconds))
        case .shakingHands(let link): shakeHands(link)
        case .upgrading(let link, _), .open(let link), .closing(let link):
            if ready.isBroken, isPaused { return end(.broken("the connection was lost")) }
            if ready.canWrite, wasFull, case .open = stage { noteProgress() }
            transfer(link)
        }
    }

    /// Continues with work that needs no event of the socket.
    func resume() {
        switch stage {
        case .lookingUp, .dialing, .shakingHands, .over: break
        case .upgrading(let link, _), .open(let link), .closing(let link): transfer(link)
        }
    }

    func timePassed(now: Int64) {
        switch stage {
        case .over: break
        case .open: break
        case .closing: end(.byUs)
        case .dialing(let dialer) where now < openBefore: dialed(dialer.resume(now: now))
        case .lookingUp: end(.unreachable("\(address.host): the name lookup took too long"))
        case .dialing: end(.unreachable("\(address.host) port \(address.port): no answer"))
        case .shakingHands: end(.insecure("the handshake took too long"))
        case .upgrading: end(.refused(status: 0, "the answer took too long"))
        }
    }

    /// Handles requests of other threads.
    func attend() {
        let wishes = channel.takeWishes()
        unprocessedBytes -= wishes.processedBytes
        resumeIfProcessed()
        output.add(wishes.texts)
        switch stage {
        case .lookingUp, .dialing, .shakingHands, .upgrading: if wishes.isClosing { end(.byUs) }
        case .open(let link):
            if wishes.isClosing { sayGoodbye(link, code: 1000) }
            transfer(link)
        case .closing, .over: break
        }
    }

    // MARK: Closing

    /// Sends the waiting output and a close frame, and gives the peer some time to answer it.
    func sayGoodbye(_ link: ConnectedSocket, code: UInt16) {
        output.addClose(code: code)
        stage = .closing(link)
        isPaused = false
        loop.setDeadline(Clock.monotonicMilliseconds + loop.settings.closeTimeout, for: self)
    }

    func end(_ closure: TransportClosure) {
        switch stage {
        case .over: return
        case .lookingUp: break
        case .dialing(let dialer): dialer.stop()
        case .shakingHands(let link), .upgrading(let link, _), .open(let link), .closing(let link): link.close()
        }
        stage = .over
        channel.end()
        loop.ended(self)
        observer(.closed(closure))
    }

    // MARK: Notifications

    func report(_ event: TransportEvent) { observer(event) }

    /// Notifies the observer that the peer is alive, at most once a second.
    func noteProgress() {
        let now = Clock.monotonicMilliseconds
        guard now - reportedProgressAt >= 1_000 else { return }
        reportedProgressAt = now
        observer(.progress(unfinished: unfinishedBytes))
    }
}

/// A connected socket and the events that it waits for. Confined to its loop's thread.
final class ConnectedSocket {
    let stream: SocketStream
    private let loop: ClientLoop
    private let id: UInt64
    private var reads = true
    private var writes = false

    /// Takes ownership of the socket. If the system refuses, closes the socket and returns nil.
    init?(_ descriptor: Int32, _ tls: TLSSession?, _ loop: ClientLoop, for runner: ConnectionRunner) {
        guard let id = loop.watch(descriptor, for: runner, read: true, write: false) else {
            Glibc.close(descriptor)
            return nil
        }
        stream = SocketStream(descriptor: descriptor, tls: tls)
        self.loop = loop
        self.id = id
    }

    func wait(read: Bool, write: Bool) {
        guard read != reads || write != writes else { return }
        reads = read
        writes = write
        loop.poller.change(stream.descriptor, id: id, read: read, write: write)
    }

    func close() {
        loop.unwatch(stream.descriptor, id: id)
        stream.close()
    }
}
