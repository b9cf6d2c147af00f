import Crypto
public import Runtime

/// A client that publishes messages to a message broker such as Kafka.
protocol SinkClient: AnyObject, Sendable {
    /// Fails the messages in flight and stops the client. Blocks for some seconds at most.
    func stop()
}

/// The clients with which sinks publish to NATS and Kafka.
///
/// A client exists while there are messages to deliver, and for `idleMilliseconds` afterwards. Sinks of one namespace with the same
/// servers, credentials and settings share a client; sinks of different namespaces never do. The number of clients is limited;
/// namespaces share it according to `FairLedger`. Usable on any thread; clients are created and stopped on separate threads.
public final class SinkProducers: Sendable {
    /// Identifies a client.
    struct Key: Hashable, Sendable {
        let namespace: String
        /// A digest, so that no credential is stored.
        private let digest: [UInt8]

        /// - Parameter parts: The kind of client, the servers, the credentials and the settings.
        init(namespace: String, _ parts: [String]) {
            self.namespace = namespace
            digest = Digest.sha256(Array(parts.map { "\($0.utf8.count):\($0)" }.joined().utf8))
        }
    }

    /// The result of a request for a client.
    enum Lease<Client: SinkClient>: Sendable {
        /// A client. The delivery must call `giveBack` with its number.
        case client(Client, number: UInt64)
        /// No client, because there are too many or the gateway is stopping. Nothing must be given back.
        case none
        /// The client could not be created. Nothing must be given back.
        case failed(SinkError)
    }

    private let work: Condition<ProducerWork>
    private let threads = MutexBox<[Thread]>([])

    /// - Parameters:
    ///   - most: The maximum number of clients.
    ///   - idleMilliseconds: How long a client exists without a delivery.
    public init(most: Int = 64, idleMilliseconds: Milliseconds = 30_000) {
        work = Condition(ProducerWork(most: most, idleMilliseconds: idleMilliseconds))
    }

    deinit {
        work.broadcast { $0.stop() }
        for thread in threads.withLock({ $0 }) { thread.detach() }
    }

    /// The number of existing clients.
    var count: Int { work.withLock { $0.clientCount } }

    var isStopped: Bool { work.withLock { $0.isStopped } }

    /// Registers a sink that uses a client.
    func attach(_ key: Key) { work.withLock { $0.attach(key) } }

    /// Unregisters a sink. With its last sink the client is stopped, which ends its deliveries.
    func detach(_ key: Key) { work.broadcast { $0.detach(key) } }

    /// Passes a client to a delivery, and creates the client if necessary. `body` is called once: before this method returns, or
    /// later on another thread.
    func use<Client: SinkClient>(
        _ key: Key, make: @escaping @Sendable () throws(SinkError) -> Client,
        _ body: @escaping @Sendable (Lease<Client>) -> Void
    ) {
        let waiter: ProducerWork.Waiter = { result in
            switch result {
            case .success(let held): body((held.client as? Client).map { .client($0, number: held.number) } ?? .none)
            case .failure(let error): body(.failed(error))
            case nil: body(.none)
            }
        }
        start()
        let answer = work.withLock { $0.use(key, now: Clock.monotonicMilliseconds, make, waiter) }
        // Usually the client exists, and the threads have nothing to do.
        if case .client(let held) = answer { return waiter(.success(held)) }
        work.broadcast { _ in }
        if case .none = answer { waiter(nil) }
    }

    /// Returns a client after a delivery.
    func giveBack(_ key: Key, number: UInt64) {
        work.withLock { $0.giveBack(key, number: number, now: Clock.monotonicMilliseconds) }
    }

    /// Stops all clients. Later deliveries receive none.
    public func stop() {
        work.broadcast { $0.stop() }
        for thread in threads.withLock({ $0 }) { thread.join() }
    }

    /// Delivers messages through a client. The messages of a key are sent one after the other.
    ///
    /// - Parameters:
    ///   - startMilliseconds: How long messages may be started. Messages that still wait then are left to another delivery.
    ///   - isStopped: Whether the sink has been stopped. No further message is then sent.
    ///   - send: Sends one message, and calls back once, on any thread.
    func deliver<Client: SinkClient>(
        _ messages: [SinkMessage], isSequential: Bool, startMilliseconds: Milliseconds, by key: Key,
        isStopped: MutexBox<Bool>, make: @escaping @Sendable () throws(SinkError) -> Client,
        send: @escaping @Sendable (SinkMessage, Client, @escaping @Sendable (SinkOutcome) -> Void) -> Void,
        _ completion: @escaping @Sendable ([SinkOutcome]) -> Void
    ) {
        guard !messages.isEmpty else { return completion([]) }
        use(key, make: make) { [weak self] (lease: Lease<Client>) in
            switch lease {
            case .none: completion(messages.map { _ in .notSent })
            case .failed(let error): completion(messages.map { _ in .unavailable(reason: error.description) })
            case .client(let client, let number):
                KeyedDelivery.begin(
                    messages, isSequential: isSequential, startMilliseconds: startMilliseconds,
                    { message, done in
                        guard !isStopped.withLock({ $0 }) else { return done(.notSent) }
                        send(message, client, done)
                    },
                    { outcomes in
                        self?.giveBack(key, number: number)
                        completion(outcomes)
                    })
            }
        }
    }

    private func start() {
        threads.withLock { threads in
            guard threads.isEmpty else { return }
            threads = [
                Thread(name: "sink-opener") { [work] in Self.open(work) },
                Thread(name: "sink-closer") { [work] in Self.close(work) },
            ]
        }
    }

    /// Creates clients until the gateway stops.
    private static func open(_ work: Condition<ProducerWork>) {
        while let job = work.wait(until: { $0.nextToOpen() }) {
            guard case .run(let key, let make) = job else { return }
            // This takes a while if the client reads certificates.
            let result: Result<any SinkClient, SinkError>
            do throws(SinkError) { result = .success(try make()) } catch { result = .failure(error) }
            let (waiters, held) = work.broadcast { $0.opened(key, result, now: Clock.monotonicMilliseconds) }
            for waiter in waiters { waiter(held) }
        }
    }

    /// Stops clients until the gateway has stopped and the last client has ended.
    private static func close(_ work: Condition<ProducerWork>) {
        while true {
            let isEmpty = work.withLock { $0.clientCount == 0 }
            // The wait has no limit while there are no clients, so the first client ends it.
            let job: ProducerWork.CloseJob? = work.wait(milliseconds: isEmpty ? nil : lookMilliseconds) { work in
                work.nextToClose(Clock.monotonicMilliseconds) ?? (isEmpty && work.clientCount > 0 ? .look : nil)
            }
            switch job {
            case .run(let key, let client):
                client.stop()
                work.withLock { $0.closed(key) }
            case .stop: return
            case .look, nil: continue
            }
        }
    }

    /// How often the thread checks for idle clients.
    private static let lookMilliseconds: Milliseconds = 1_000
}

/// The clients that exist, are being created or are being stopped. A value without threads.
struct ProducerWork: Sendable {
    typealias Key = SinkProducers.Key
    typealias Make = @Sendable () throws(SinkError) -> any SinkClient
    /// Receives the client, the error if it cannot be created, or nil if no client may be created.
    typealias Waiter = @Sendable (Result<Held, SinkError>?) -> Void

    /// A client in use by a delivery.
    struct Held: Sendable {
        let client: any SinkClient
        /// Distinguishes successive clients of the same key.
        let number: UInt64
    }

    enum Answer {
        case client(Held)
        case wait
        case none
    }

    enum OpenJob {
        case run(Key, Make)
        case stop
    }

    enum CloseJob {
        case run(Key, any SinkClient)
        /// There are clients that may become idle.
        case look
        case stop
    }

    private struct Open {
        let number: UInt64
        /// Nil while the client is being created.
        var client: (any SinkClient)?
        var deliveries: Int
        var waiters: [Waiter]
        var idleSince: Milliseconds = 0
        /// Whether to stop the client as soon as it has been created.
        var isUnwanted = false
    }

    private var seats: FairLedger<String, Key>
    private let idleMilliseconds: Milliseconds
    /// The clients by key. Each has a seat.
    private var open: [Key: Open] = [:]
    private var sinks: [Key: Int] = [:]
    /// The clients to create, one at a time; namespaces take turns.
    private var toOpen: FairQueue<String, Key, Make>
    private var toClose: [(key: Key, client: any SinkClient)] = []
    /// The clients in `toClose`, and the client that is being stopped. They keep their seats until they have ended.
    private var ending: [Key] = []
    private(set) var isStopped = false
    private var lastNumber: UInt64 = 0
    /// How long a client must be idle before it may be stopped to make room for another one.
    static let evictionMilliseconds: Milliseconds = 1_000

    init(most: Int, idleMilliseconds: Milliseconds) {
        seats = FairLedger(capacity: most)
        // The queue always has room for a client with a seat.
        toOpen = FairQueue(slots: 1, capacity: 4 * max(1, most))
        self.idleMilliseconds = idleMilliseconds
    }

    /// The number of clients, including those that are being stopped.
    var clientCount: Int { seats.used }

    mutating func attach(_ key: Key) { sinks[key, default: 0] += 1 }

    mutating func detach(_ key: Key) {
        let left = (sinks[key] ?? 0) - 1
        sinks[key] = left > 0 ? left : nil
        if left <= 0 { end(key) }
    }

    mutating func use(
        _ key: Key, now: Milliseconds, _ make: @escaping Make, _ waiter: @escaping Waiter
    ) -> Answer {
        guard !isStopped else { return .none }
        if var found = open[key] {
            guard !found.isUnwanted else { return .none }
            found.deliveries += 1
            if found.client == nil { found.waiters.append(waiter) }
            open[key] = found
            return found.client.map { .client(Held(client: $0, number: found.number)) } ?? .wait
        }
        guard seats.take(for: key, of: key.namespace) else {
            makeRoom(for: key, now)
            return .none
        }
        guard toOpen.add(make, for: key, of: key.namespace) != nil else {
            seats.release(by: key, of: key.namespace)
            return .none
        }
        lastNumber += 1
        open[key] = Open(number: lastNumber, deliveries: 1, waiters: [waiter])
        return .wait
    }

    mutating func giveBack(_ key: Key, number: UInt64, now: Milliseconds) {
        guard open[key]?.number == number else { return }
        open[key]?.deliveries -= 1
        open[key]?.idleSince = now
    }

    /// Stops the clients that have been idle for longest if that makes room for another one: as many as needed of the same
    /// namespace, and at most one of another namespace.
    private mutating func makeRoom(for key: Key, _ now: Milliseconds) {
        var left = seats
        // Clients that are being stopped will release their seats soon.
        for key in ending { left.release(by: key, of: key.namespace) }
        let idle = open.filter { isIdle($0.value, for: Self.evictionMilliseconds, now) }
            .sorted { $0.value.idleSince < $1.value.idleSince }.map(\.key)
        let own = idle.filter { $0.namespace == key.namespace }
        let others = idle.filter { $0.namespace != key.namespace }.prefix(1)
        var victims: [Key] = []
        for victim in own + others where !left.allows(for: key, of: key.namespace) {
            left.release(by: victim, of: victim.namespace)
            victims.append(victim)
        }
        guard left.allows(for: key, of: key.namespace) else { return }
        for victim in victims { end(victim) }
    }

    private func isIdle(_ one: Open, for milliseconds: Milliseconds, _ now: Milliseconds) -> Bool {
        one.client != nil && one.deliveries <= 0 && now - one.idleSince >= milliseconds
    }

    private mutating func end(_ key: Key) {
        guard let found = open[key] else { return }
        guard let client = found.client else {
            open[key]?.isUnwanted = true
            return
        }
        open[key] = nil
        close(key, client)
    }

    private mutating func close(_ key: Key, _ client: any SinkClient) {
        toClose.append((key, client))
        ending.append(key)
    }

    mutating func nextToOpen() -> OpenJob? {
        guard let next = toOpen.next() else { return isStopped ? .stop : nil }
        // Deliveries that wait for a client receive this error.
        let stopping: Make = { () throws(SinkError) -> any SinkClient in throw SinkError("The gateway is stopping.") }
        return .run(next.member, isStopped ? stopping : next.item)
    }

    /// Records that a client was created, or could not be created.
    ///
    /// - Returns: The deliveries that wait for it, and the result for them.
    mutating func opened(
        _ key: Key, _ result: Result<any SinkClient, SinkError>, now: Milliseconds
    ) -> (waiters: [Waiter], result: Result<Held, SinkError>?) {
        toOpen.finish(key, of: key.namespace)
        guard var found = open[key] else { return ([], nil) }
        let waiters = found.waiters
        found.waiters = []
        found.idleSince = now
        switch result {
        case .failure(let error):
            open[key] = nil
            seats.release(by: key, of: key.namespace)
            return (waiters, .failure(error))
        case .success(let client) where found.isUnwanted || isStopped:
            open[key] = nil
            close(key, client)
            return (waiters, nil)
        case .success(let client):
            found.client = client
            open[key] = found
            return (waiters, .success(Held(client: client, number: found.number)))
        }
    }

    mutating func nextToClose(_ now: Milliseconds) -> CloseJob? {
        for (key, one) in open where isIdle(one, for: idleMilliseconds, now) { end(key) }
        if !toClose.isEmpty {
            let (key, client) = toClose.removeFirst()
            return .run(key, client)
        }
        // A client that is still being created is stopped once it exists.
        return isStopped && open.isEmpty ? .stop : nil
    }

    mutating func closed(_ key: Key) {
        if let index = ending.firstIndex(of: key) { ending.remove(at: index) }
        seats.release(by: key, of: key.namespace)
    }

    mutating func stop() {
        isStopped = true
        for key in Array(open.keys) { end(key) }
    }
}
