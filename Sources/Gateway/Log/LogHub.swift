import Engine
import Feeds
import HTTPServer
import Placement
import Runtime
import Tokens
import Tree

/// A loop's readers of logs: passes them slices, keeps them alive, and ends them. One for each loop.
final class LogHub: LogReadingHost {
    private let services: LoopServices
    private let databases: Databases
    private let authenticator: Authenticator
    private let feedBasePath: FeedBasePath
    private let link: LoopLink<LogHub>
    private var readings: [UInt64: any LogReading] = [:]
    private var taken: [UInt64: LogSeats.Seat] = [:]
    let seats: LogSeats
    /// Determines when credentials have to be checked again.
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

    /// Returns the feed whose token gives a client its right to read.
    private static func feed(of identity: Identity) -> FeedGrant? {
        identity.mayAdminister ? nil : identity.feed
    }

    /// Adds a reader with its first slice.
    ///
    /// - Parameters:
    ///   - seat: the reader's seat, kept until the reader has ended.
    ///   - milliseconds: how long the reader lasts.
    func add(
        _ reading: any LogReading, _ seat: LogSeats.Seat, _ first: LogSlice, forMilliseconds milliseconds: Milliseconds
    ) {
        let id = reading.exchange.id
        readings[id] = reading
        taken[id] = seat
        services.metrics.logReadings.add(1)
        identityWatch.add(reading.identity, isValid: authenticator.isValid(reading.identity))
        let timer = services.loop.schedule(afterMilliseconds: milliseconds) { [weak self] in
            self?.withReading(id) { $0.end() }
        }
        reading.exchange.onClose = { [weak self] in
            timer.cancel()
            self?.forget(id)
        }
        reading.exchange.onDrain = { [weak self] in self?.withReading(id) { $0.drained() } }
        withReading(id) { $0.received(.success(first)) }
        if readings[id] == nil { timer.cancel() }
    }

    // MARK: LogReadingHost

    func read(_ reading: any LogReading, at position: LogLinePosition) {
        let id = reading.exchange.id
        // The query keeps the seat, so that a client that disconnects does not free it before the answer.
        let seat = taken[id]
        databases.engine(of: reading.namespace).logs.slice(reading.view, at: position) { [link] result in
            withExtendedLifetime(seat) { link.post { hub in hub.withReading(id) { $0.received(result) } } }
        }
    }

    func awaitEntry(_ seq: Int64, for reading: any LogReading) {
        let id = reading.exchange.id
        // Before this timeout a keep-alive makes the reader read again.
        let milliseconds = services.settings.streamKeepAliveMilliseconds + 5_000
        reading.namespace.whenApplied(seq, within: milliseconds) { [link] in
            link.post { hub in hub.withReading(id) { $0.woke() } }
        }
    }

    private func withReading(_ id: UInt64, _ work: (any LogReading) -> Void) {
        guard let reading = readings[id] else { return }
        work(reading)
        forgetAnswered(reading)
    }

    /// Removes a reader that was answered, because its close handler is not called.
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
        for id in Array(readings.keys) { withReading(id) { $0.keepAlive() } }
    }

    /// Ends the readers whose credentials are no longer valid.
    func endInvalidIdentities(now: Milliseconds = Clock.unixMilliseconds) {
        guard identityWatch.isDue(generation: authenticator.secrets.generation, now: now) else { return }
        for (id, reading) in readings {
            if authenticator.isValid(reading.identity, now: now) {
                identityWatch.add(reading.identity, isValid: true)
            } else {
                withReading(id) { $0.revoke() }
            }
        }
    }

    /// Ends the readers with tokens of removed feeds, or of feeds that no longer cover the reader's path. Each feed
    /// takes a query on another thread.
    func endLostFeeds() {
        for feed in Set(readings.values.compactMap { Self.feed(of: $0.identity) }) {
            feedBasePath(FeedName(namespace: feed.feed.namespace, name: feed.feed.feed), feed.access) { [link] result in
                // After an error the next call checks the feed again.
                guard case .success(let base) = result else { return }
                link.post { hub in hub.feed(feed, isOf: base) }
            }
        }
    }

    private func feed(_ feed: FeedGrant, isOf base: Path?) {
        for (id, reading) in readings where Self.feed(of: reading.identity) == feed {
            if base?.contains(reading.view.path) != true { withReading(id) { $0.revoke() } }
        }
    }

    /// Ends all readers. Their clients reconnect to another gateway.
    func drain() {
        for id in Array(readings.keys) { withReading(id) { $0.end() } }
    }
}
