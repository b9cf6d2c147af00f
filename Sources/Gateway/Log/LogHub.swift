import Engine
import HTTPServer
import Runtime

/// A loop's readings of logs: gives them slices, keeps them alive, and ends them. One for each loop.
final class LogHub: LogReadingHost {
    private let services: LoopServices
    private let engine: Engine
    private let authenticator: Authenticator
    private let link: LoopLink<LogHub>
    private var readings: [UInt64: any LogReading] = [:]
    /// When credentials have to be looked at again.
    private var identityWatch = IdentityWatch()

    init(_ services: LoopServices, _ engine: Engine, _ authenticator: Authenticator) {
        self.services = services
        self.engine = engine
        self.authenticator = authenticator
        link = LoopLink(services.loop)
        link.lead(to: self)
    }

    /// Whether there is room for one more.
    var hasRoom: Bool { services.metrics.logReadings.current < services.settings.maxLogReadings }

    /// Takes a reading in, with the first slice that was read for it.
    ///
    /// - Parameter milliseconds: for how long it is to last; nil for as long as it likes.
    func add(
        _ reading: any LogReading, _ first: LogSlice, forMilliseconds milliseconds: Milliseconds?,
        then timedOut: @escaping (any LogReading) -> Void
    ) {
        let id = reading.exchange.id
        readings[id] = reading
        services.metrics.logReadings.add(1)
        identityWatch.add(reading.identity)
        let timer = milliseconds.map { milliseconds in
            services.loop.schedule(afterMilliseconds: milliseconds) { [weak self] in
                guard let self, let reading = self.readings[id] else { return }
                timedOut(reading)
                self.forgetAnswered(reading)
            }
        }
        reading.exchange.onClose = { [weak self] in
            timer?.cancel()
            self?.forget(id)
        }
        reading.exchange.onDrain = { [weak self] in self?.tell(id) { $0.drained() } }
        tell(id) { $0.received(.success(first)) }
        if readings[id] == nil { timer?.cancel() }
    }

    // MARK: What readings need

    func read(_ reading: any LogReading, at place: LogPlace) {
        let id = reading.exchange.id
        engine.logs.slice(reading.view, at: place) { [link] result in
            link.post { hub in hub.tell(id) { $0.received(result) } }
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

    /// Ends all: their clients come back, elsewhere.
    func drain() {
        for id in Array(readings.keys) { tell(id) { $0.end() } }
    }
}
