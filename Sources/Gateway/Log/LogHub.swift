import Engine
import Feeds
import HTTPServer
import Placement
import Runtime
import Tokens
import Tree

/// A loop's readings of logs: gives them slices, keeps them alive, and ends them. One for each loop.
final class LogHub: LogReadingHost {
    private let services: LoopServices
    private let databases: Databases
    private let authenticator: Authenticator
    private let feedBasePath: FeedBasePath
    private let link: LoopLink<LogHub>
    private var readings: [UInt64: any LogReading] = [:]
    private var taken: [UInt64: LogSeats.Seat] = [:]
    let seats: LogSeats
    /// When credentials have to be looked at again.
    private var identityWatch = IdentityWatch()

    init(
        _ services: LoopServices, _ databases: Databases, _ authenticator: Authenticator, _ seats: LogSeats,
        _ feedBasePath: @escaping FeedBasePath
    ) {
        self.seats = seats
        self.feedBasePath = feedBasePath
        self.services = services
        self.databases = databases
        self.authenticator = authenticator
        link = LoopLink(services.loop)
        link.lead(to: self)
    }

    /// The feed whose token it is that lets somebody read.
    private static func feed(of identity: Identity) -> FeedGrant? {
        identity.mayAdminister ? nil : identity.feed
    }

    /// Takes a reading in, with the first slice that was read for it.
    ///
    /// - Parameters:
    ///   - seat: The reader's, kept until the reading has ended.
    ///   - milliseconds: for how long it is to last.
    func add(
        _ reading: any LogReading, _ seat: LogSeats.Seat, _ first: LogSlice, forMilliseconds milliseconds: Milliseconds
    ) {
        let id = reading.exchange.id
        readings[id] = reading
        taken[id] = seat
        services.metrics.logReadings.add(1)
        identityWatch.add(reading.identity)
        let timer = services.loop.schedule(afterMilliseconds: milliseconds) { [weak self] in
            self?.tell(id) { $0.end() }
        }
        reading.exchange.onClose = { [weak self] in
            timer.cancel()
            self?.forget(id)
        }
        reading.exchange.onDrain = { [weak self] in self?.tell(id) { $0.drained() } }
        tell(id) { $0.received(.success(first)) }
        if readings[id] == nil { timer.cancel() }
    }

    // MARK: What readings need

    func read(_ reading: any LogReading, at place: LogPlace) {
        let id = reading.exchange.id
        // The question keeps the seat, too: a client that goes away does not make room for another one before it is answered.
        let seat = taken[id]
        databases.engine(of: reading.namespace).logs.slice(reading.view, at: place) { [link] result in
            withExtendedLifetime(seat) { link.post { hub in hub.tell(id) { $0.received(result) } } }
        }
    }

    func awaitEntry(_ seq: Int64, for reading: any LogReading) {
        let id = reading.exchange.id
        // By then a keep-alive has come, and with it a look.
        let milliseconds = services.settings.streamKeepAliveMilliseconds + 5_000
        reading.namespace.whenApplied(seq, within: milliseconds) { [link] in
            link.post { hub in hub.tell(id) { $0.woke() } }
        }
    }

    private func tell(_ id: UInt64, _ work: (any LogReading) -> Void) {
        guard let reading = readings[id] else { return }
        work(reading)
        forgetAnswered(reading)
    }

    /// One that was answered is not told when its connection closes.
    private func forgetAnswered(_ reading: any LogReading) {
        if !reading.exchange.isOpen { forget(reading.exchange.id) }
    }

    private func forget(_ id: UInt64) {
        guard readings.removeValue(forKey: id) != nil else { return }
        taken[id] = nil
        services.metrics.logReadings.add(-1)
    }

    // MARK: Time

    func sendKeepAlives() {
        for id in Array(readings.keys) { tell(id) { $0.keepAlive() } }
    }

    /// Ends the readings whose credentials hold no more.
    func endInvalidIdentities(now: Milliseconds = Clock.unixMilliseconds) {
        guard identityWatch.isDue(generation: authenticator.secrets.generation, now: now) else { return }
        for (id, reading) in readings {
            if authenticator.isValid(reading.identity, now: now) {
                identityWatch.add(reading.identity)
            } else {
                tell(id) { $0.revoke() }
            }
        }
    }

    /// Ends the readings by tokens of feeds that are gone, or that are not of what is shown any more. It takes a moment to find out.
    func endLostFeeds() {
        for feed in Set(readings.values.compactMap { Self.feed(of: $0.identity) }) {
            feedBasePath(FeedName(namespace: feed.feed.namespace, name: feed.feed.feed), feed.access) { [link] result in
                // Whoever can't be told of now is looked for again.
                guard case .success(let base) = result else { return }
                link.post { hub in hub.feed(feed, isOf: base) }
            }
        }
    }

    private func feed(_ feed: FeedGrant, isOf base: Path?) {
        for (id, reading) in readings where Self.feed(of: reading.identity) == feed {
            if base?.contains(reading.view.path) != true { tell(id) { $0.revoke() } }
        }
    }

    /// Ends all: their clients come back, elsewhere.
    func drain() {
        for id in Array(readings.keys) { tell(id) { $0.end() } }
    }
}
