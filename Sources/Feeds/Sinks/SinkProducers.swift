import Crypto
public import Runtime

/// A client that publishes messages to an engine such as Kafka.
protocol SinkClient: AnyObject, Sendable {
    /// Fails what is under way and ends the client. Blocks for some seconds at most.
    func stop()
}

/// The clients by which sinks publish to NATS and Kafka.
///
/// A client exists while there is something to deliver, and for `idleMilliseconds` afterwards. Sinks of one namespace with the same servers,
/// credentials and settings share a client; sinks of different namespaces never do. The number of clients is bounded, shared by
/// namespace by the rule of `FairLedger`. Any thread may use it; clients are made and ended on threads of its own.
public final class SinkProducers: Sendable {
    /// Identifies a client.
    struct Key: Hashable, Sendable {
        let namespace: String
        /// A digest, so that no credential is kept.
        private let digest: [UInt8]

        /// - Parameter parts: The kind of engine, servers, credentials and settings.
        init(namespace: String, _ parts: [String]) {
            self.namespace = namespace
            digest = Digest.sha256(Array(parts.map { "\($0.utf8.count):\($0)" }.joined().utf8))
        }
    }

    /// What a delivery gets.
    enum Lease<Client: SinkClient>: Sendable {
        /// To be given back by `giveBack`, with its number.
        case client(Client, number: UInt64)
        /// There are too many clients, or the gateway stops. Nothing is to be given back.
        case none
        /// The client can't be made. Nothing is to be given back.
        case failed(SinkError)
    }

    private let work: Condition<ProducerWork>
    private let threads = MutexBox<[Thread]>([])

    /// - Parameters:
    ///   - most: The clients that may exist at once.
    ///   - idleMilliseconds: How long a client exists without a delivery.
    public init(most: Int = 64, idleMilliseconds: Milliseconds = 30_000) {
        work = Condition(ProducerWork(most: most, idleMilliseconds: idleMilliseconds))
    }

    deinit {
        work.broadcast { $0.stop() }
        for thread in threads.withLock({ $0 }) { thread.detach() }
    }

    /// The clients that exist now.
    var count: Int { work.withLock { $0.clientCount } }

    var isStopped: Bool { work.withLock { $0.isStopped } }

    /// A sink may use a client from now on.
    func attach(_ key: Key) { work.withLock { $0.attach(key) } }

    /// A sink does not use a client any more. The last one ends it, with what is under way.
    func detach(_ key: Key) { work.broadcast { $0.detach(key) } }

    /// Gives a delivery the client, made first if there is none. `body` is called once: before this returns, or later from another thread.
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
        // Mostly there is a client: then the threads have nothing to do.
        if case .client(let held) = answer { return waiter(.success(held)) }
        work.broadcast { _ in }
        if case .none = answer { waiter(nil) }
    }

    /// A delivery has ended.
    func giveBack(_ key: Key, number: UInt64) {
        work.withLock { $0.giveBack(key, number: number, now: Clock.monotonicMilliseconds) }
    }

    /// Ends all clients. Later deliveries get none.
    public func stop() {
        work.broadcast { $0.stop() }
        for thread in threads.withLock({ $0 }) { thread.join() }
    }

    /// Delivers messages by a client, those of a key after one another.
    ///
    /// - Parameters:
    ///   - startMilliseconds: How long messages are sent; those that wait then are left for another delivery.
    ///   - isStopped: Whether the sink has been stopped: nothing more is sent then.
    ///   - send: Sends one message, and calls back once, from any thread.
    func deliver<Client: SinkClient>(
        _ messages: [SinkMessage], isOneLane: Bool, startMilliseconds: Milliseconds, by key: Key,
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
                LaneDelivery.begin(
                    messages, isOneLane: isOneLane, startMilliseconds: startMilliseconds,
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

    /// Makes clients until the gateway stops.
    private static func open(_ work: Condition<ProducerWork>) {
        while let job = work.wait(until: { $0.nextToOpen() }) {
            guard case .run(let key, let make) = job else { return }
            // Where it reads certificates, it takes a while.
            let result: Result<any SinkClient, SinkError>
            do throws(SinkError) { result = .success(try make()) } catch { result = .failure(error) }
            let (waiters, held) = work.broadcast { $0.opened(key, result, now: Clock.monotonicMilliseconds) }
            for waiter in waiters { waiter(held) }
        }
    }

    /// Ends clients until the gateway has stopped and the last one has ended.
    private static func close(_ work: Condition<ProducerWork>) {
        while true {
            let pause = work.withLock { $0.clientCount == 0 ? nil : lookMilliseconds }
            let job = work.wait(milliseconds: pause) { $0.nextToClose(Clock.monotonicMilliseconds) }
            switch job {
            case .run(let key, let client):
                client.stop()
                work.withLock { $0.closed(key) }
            case .stop: return
            case nil: continue
            }
        }
    }

    /// How often idle clients are looked for.
    private static let lookMilliseconds: Milliseconds = 1_000
}

/// Which clients exist, are being made and are being ended. A value without threads.
struct ProducerWork: Sendable {
    typealias Key = SinkProducers.Key
    typealias Make = @Sendable () throws(SinkError) -> any SinkClient
    /// Gets the client, why there is none, or nil where none may be made.
    typealias Waiter = @Sendable (Result<Held, SinkError>?) -> Void

    /// A client that a delivery uses.
    struct Held: Sendable {
        let client: any SinkClient
        /// Tells the clients of one key apart that exist after one another.
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
        case stop
    }

    private struct Open {
        let number: UInt64
        /// Nil while it is being made.
        var client: (any SinkClient)?
        var deliveries: Int
        var waiters: [Waiter]
        var idleSince: Milliseconds = 0
        /// Whether it is to be ended as soon as it is made.
        var isUnwanted = false
    }

    private var seats: FairLedger<String, Key>
    private let idleMilliseconds: Milliseconds
    /// At most as many as there are seats.
    private var open: [Key: Open] = [:]
    private var sinks: [Key: Int] = [:]
    /// Clients to be made, one at a time, namespaces in turn.
    private var toOpen: FairQueue<String, Key, Make>
    private var toClose: [(key: Key, client: any SinkClient)] = []
    /// The clients of `toClose`, and the one that is being ended: they keep their seats until they have ended.
    private var ending: [Key] = []
    private(set) var isStopped = false
    private var lastNumber: UInt64 = 0
    /// A client that is used now and then is not ended in favour of another one until it has been idle for so long.
    static let evictionMilliseconds: Milliseconds = 1_000

    init(most: Int, idleMilliseconds: Milliseconds) {
        seats = FairLedger(capacity: most)
        // There is always a place for what has a seat.
        toOpen = FairQueue(slots: 1, places: 4 * max(1, most))
        self.idleMilliseconds = idleMilliseconds
    }

    /// Those that are being ended included.
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

    /// Ends clients that have been idle for longest if that makes room for another one: as many of the namespace itself as it takes, and
    /// at most one of another namespace.
    private mutating func makeRoom(for key: Key, _ now: Milliseconds) {
        var left = seats
        // What is being ended leaves its seat soon.
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
        // What waits for a client is answered.
        let stopping: Make = { () throws(SinkError) -> any SinkClient in throw SinkError("The gateway stops.") }
        return .run(next.member, isStopped ? stopping : next.item)
    }

    /// A client was made, or can't be.
    ///
    /// - Returns: The deliveries that wait for it, and what they get.
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
        // One that is being made is ended when it is there.
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
