import Runtime
import TestSupport
import Testing

@testable import Feeds

/// Tests of which sinks share a client, and of the number of clients.
@Suite struct SinkProducersTests {
    private final class Client: SinkClient {
        let hasStopped = Condition(false)

        func stop() { hasStopped.broadcast { $0 = true } }

        func waitUntilStopped() -> Bool { hasStopped.wait(milliseconds: 30_000) { $0 ? true : nil } ?? false }
    }

    private final class Maker: Sendable {
        let made = MutexBox(0)

        func make() -> Client {
            made.withLock { $0 += 1 }
            return Client()
        }

        var count: Int { made.withLock { $0 } }
    }

    private func key(_ namespace: String, _ server: String) -> SinkProducers.Key {
        SinkProducers.Key(namespace: namespace, ["kafka", server])
    }

    private func use(
        _ producers: SinkProducers, _ key: SinkProducers.Key, _ maker: Maker
    ) -> (client: Client, number: UInt64)? {
        let answer = Condition<SinkProducers.Lease<Client>?>(nil)
        let make = { @Sendable () throws(SinkError) -> Client in maker.make() }
        producers.use(key, make: make) { (lease: SinkProducers.Lease<Client>) in answer.broadcast { $0 = lease } }
        guard case .client(let client, let number) = answer.wait(milliseconds: 30_000, until: { $0 }) else {
            return nil
        }
        return (client, number)
    }

    @Test func sinksOfANamespaceShareAClient() throws {
        let producers = SinkProducers()
        defer { producers.stop() }
        let maker = Maker()
        let one = try #require(use(producers, key("a", "s"), maker))
        let two = try #require(use(producers, key("a", "s"), maker))
        #expect(one.client === two.client && maker.count == 1)
        let other = try #require(use(producers, key("b", "s"), maker))
        let elsewhere = try #require(use(producers, key("a", "t"), maker))
        #expect(other.client !== one.client && elsewhere.client !== one.client && producers.count == 3)
        // Parts that are equal only when concatenated.
        #expect(SinkProducers.Key(namespace: "a", ["x", "yz"]) != SinkProducers.Key(namespace: "a", ["xy", "z"]))
    }

    /// Checks that sinks create no client before a delivery.
    @Test func nothingIsMadeBeforeADelivery() {
        let producers = SinkProducers()
        defer { producers.stop() }
        for number in 0..<200 { producers.attach(key("a", "s\(number)")) }
        #expect(producers.count == 0)
    }

    @Test func anIdleClientEnds() throws {
        let producers = SinkProducers(idleMilliseconds: 100)
        defer { producers.stop() }
        let maker = Maker()
        let one = try #require(use(producers, key("a", "s"), maker))
        producers.giveBack(key("a", "s"), number: one.number)
        #expect(one.client.waitUntilStopped())
        let two = try #require(use(producers, key("a", "s"), maker))
        #expect(two.client !== one.client)
        // A late end of a delivery with the old client does not affect the new client.
        producers.giveBack(key("a", "s"), number: one.number)
        #expect(!two.client.hasStopped.withLock { $0 })
        // The second client ends as well: there was a moment without any client.
        producers.giveBack(key("a", "s"), number: two.number)
        #expect(two.client.waitUntilStopped())
    }

    @Test func theLastSinkEndsItsClient() throws {
        let producers = SinkProducers()
        defer { producers.stop() }
        let (key, maker) = (key("a", "s"), Maker())
        producers.attach(key)
        producers.attach(key)
        let one = try #require(use(producers, key, maker))
        producers.detach(key)
        let two = try #require(use(producers, key, maker))
        #expect(two.client === one.client)
        producers.detach(key)
        #expect(one.client.waitUntilStopped())
    }

    @Test func namespacesShareTheSeats() {
        let producers = SinkProducers(most: 16)
        defer { producers.stop() }
        let maker = Maker()
        var count = 0
        while use(producers, key("a", "s\(count)"), maker) != nil, count < 100 { count += 1 }
        #expect(count <= 8)
        #expect(use(producers, key("b", "s"), maker) != nil)
        #expect(use(producers, key("c", "s"), maker) != nil)
    }

    /// Checks that a client that has been idle for a while is closed if another one needs its slot.
    @Test func anIdleClientMakesRoom() throws {
        let producers = SinkProducers(most: 1)
        defer { producers.stop() }
        let maker = Maker()
        let one = try #require(use(producers, key("a", "s"), maker))
        #expect(use(producers, key("a", "t"), maker) == nil && !one.client.hasStopped.withLock { $0 })
        producers.giveBack(key("a", "s"), number: one.number)
        #expect(eventually { use(producers, key("a", "t"), maker) != nil })
        #expect(one.client.waitUntilStopped())
    }

    /// The clients of a value without threads, with a simulated clock.
    private final class Work {
        private var work: ProducerWork
        private var now: Milliseconds = 0
        private var numbers: [SinkProducers.Key: UInt64] = [:]

        init(most: Int) { work = ProducerWork(most: most, idleMilliseconds: 1_000_000) }

        /// Whether a client is available for a delivery. Creates one if necessary.
        func use(_ key: SinkProducers.Key) -> Bool {
            now += 10_000
            let make = { @Sendable () throws(SinkError) -> any SinkClient in Client() }
            if case .none = work.use(key, now: now, make, { _ in }) { return false }
            if case .run(let key, _) = work.nextToOpen(),
                case .success(let held)? = work.opened(key, .success(Client()), now: now).result
            {
                numbers[key] = held.number
            }
            return true
        }

        func makeIdle(_ key: SinkProducers.Key) {
            now += 1
            work.giveBack(key, number: numbers[key] ?? 0, now: now)
        }

        /// Closes the clients that are due. Returns their namespaces.
        func close() -> [String] {
            var closed: [String] = []
            while case .run(let key, _)? = work.nextToClose(now) {
                work.closed(key)
                closed.append(key.namespace)
            }
            return closed
        }
    }

    /// Checks that an idle client of another namespace is not closed if the limits would refuse the new one regardless.
    @Test func noClientEndsInVain() {
        let work = Work(most: 4)
        #expect(work.use(key("b", "s")))
        work.makeIdle(key("b", "s"))
        #expect(work.use(key("a", "1")) && work.use(key("a", "2")))
        // The namespace has two of four clients, and may not have a third of the remaining three slots.
        #expect(!work.use(key("a", "3")) && work.close().isEmpty)
        // The namespace may close one of its own clients, and then open another.
        work.makeIdle(key("a", "1"))
        #expect(!work.use(key("a", "3")) && work.close() == ["a"])
        #expect(work.use(key("a", "3")))
    }

    /// Checks that one client is closed for another, however often the request is repeated before it has closed.
    @Test func oneClientMakesRoomForOne() {
        let work = Work(most: 2)
        for namespace in ["a", "b"] {
            #expect(work.use(key(namespace, "s")))
            work.makeIdle(key(namespace, "s"))
        }
        #expect(!work.use(key("c", "s")) && !work.use(key("c", "s")))
        #expect(work.close() == ["a"])
        #expect(work.use(key("c", "s")) && work.close().isEmpty)
    }

    @Test func aClientThatCannotBeMadeTakesNoSeat() {
        let producers = SinkProducers(most: 1)
        defer { producers.stop() }
        for _ in 0..<3 {
            let answer = Condition<SinkProducers.Lease<Client>?>(nil)
            let make = { @Sendable () throws(SinkError) -> Client in throw SinkError("broken") }
            producers.use(key("a", "s"), make: make) { (lease: SinkProducers.Lease<Client>) in
                answer.broadcast { $0 = lease }
            }
            guard case .failed(let error) = answer.wait(milliseconds: 30_000, until: { $0 }) else {
                Issue.record("a client was made")
                return
            }
            #expect(error.description == "broken")
        }
        #expect(producers.count == 0)
    }

    @Test func theEndEndsAllClients() throws {
        let producers = SinkProducers()
        let maker = Maker()
        let clients = try (0..<5).map { try #require(use(producers, key("a", "s\($0)"), maker)).client }
        producers.stop()
        #expect(clients.allSatisfy { $0.hasStopped.withLock { $0 } } && producers.count == 0)
        #expect(use(producers, key("a", "s"), maker) == nil)
    }

    /// Checks that stopping does not wait for operations that were not started.
    @Test func theEndAnswersWhatWaits() {
        let producers = SinkProducers()
        let (begun, mayContinue) = (Condition(false), Condition(false))
        let answers = Condition(0)
        let slow = { @Sendable () throws(SinkError) -> Client in
            begun.broadcast { $0 = true }
            _ = mayContinue.wait(milliseconds: 30_000) { $0 ? true : nil }
            return Client()
        }
        for number in 0..<5 {
            producers.use(key("a", "s\(number)"), make: slow) { (lease: SinkProducers.Lease<Client>) in
                if case .client = lease { Issue.record("a client after the end") }
                answers.broadcast { $0 += 1 }
            }
        }
        _ = begun.wait(milliseconds: 30_000) { $0 ? true : nil }
        let stopping = Thread(name: "stop") { producers.stop() }
        #expect(eventually { producers.isStopped })
        mayContinue.broadcast { $0 = true }
        stopping.join()
        #expect(answers.withLock { $0 } == 5 && producers.count == 0)
    }
}
