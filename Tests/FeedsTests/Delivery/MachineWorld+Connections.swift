import LogStore
import TestSupport

@testable import Feeds

/// Connections of consumers that end at any byte, and consumers that open the next one with the last id that they
/// received.
extension MachineWorld {
    /// A connection of a consumer. Deliveries arrive in order until the connection breaks.
    final class Connection {
        let number: Int
        let opening = FeedOpening()
        /// The deliveries sent on the connection, and the number of them that have arrived.
        private var handed: [(position: FeedPosition, delivery: UInt64)] = []
        private var arrived = 0

        init(number: Int) { self.number = number }

        func add(_ delivery: FeedMachine.Delivery) { handed.append((delivery.message.position, delivery.number)) }

        /// Lets the consumer receive `count` more deliveries. Returns their ids.
        func receive(_ count: Int) -> [FeedEventID] {
            let new = handed[arrived...].prefix(count).map { FeedEventID($0.position, delivery: $0.delivery) }
            arrived += new.count
            return new
        }

        /// Loses up to `count` deliveries at the end that have not arrived. Returns them.
        func lose(_ count: Int) -> [(position: FeedPosition, delivery: UInt64)] {
            let lost = Array(handed[arrived...].suffix(count))
            handed.removeLast(lost.count)
            return lost
        }

        func hasBrought(_ position: FeedPosition) -> Bool { handed[..<arrived].contains { $0.position == position } }
    }

    /// Takes a step on a connection of a random consumer.
    func connect() {
        let consumer = random.pick(Self.consumers)
        let open = connections[consumer] ?? []
        switch random.below(8) {
        case 0: self.open(consumer)
        case 1: visit(consumer)
        case 2, 3, 4:
            // Usually uses the newest connection. A former one may not have noticed that it was replaced.
            guard !open.isEmpty else { return self.open(consumer) }
            pull(1 + random.below(4), by: consumer, through: random.oneIn(6) ? random.pick(open) : open[open.count - 1])
        case 5, 6:
            receive(consumer, random.below(5))
        default:
            guard !open.isEmpty else { return }
            end(random.pick(open), of: consumer)
        }
    }

    /// Opens a connection that delivers messages and breaks. Other consumers are served before this consumer returns.
    private func visit(_ consumer: String) {
        open(consumer)
        // The former connection may not have noticed that it was replaced.
        if random.oneIn(2), let former = connections[consumer]?.dropLast().last {
            pull(1 + random.below(3), by: consumer, through: former)
        }
        if let connection = newest[consumer] { pull(1 + random.below(6), by: consumer, through: connection) }
        receive(consumer, random.below(6))
        if random.oneIn(3) { repeatLast(consumer) }
        if random.oneIn(2), let connection = newest[consumer] { end(connection, of: consumer) }
        if random.oneIn(2) { pull(1 + random.below(3), by: random.pick(Self.consumers)) }
        if random.oneIn(2) { open(consumer) }
    }

    /// Lets the consumer's last message fail and be delivered again on the same connection, after other deliveries that
    /// do not arrive.
    private func repeatLast(_ consumer: String) {
        guard let connection = newest[consumer], let last = lastReceived[consumer] else { return }
        reject(last.position, by: consumer)
        pull(1 + random.below(3), by: consumer, through: connection)
        wait(150)
        pull(6, by: consumer, through: connection)
    }

    private func receive(_ consumer: String, _ count: Int) {
        // Deliveries on a former connection do not count, because the consumer has closed it.
        guard let new = newest[consumer]?.receive(count), let last = new.last else { return }
        note("\(consumer) receives \(new.map { $0.text(in: "") })")
        lastReceived[consumer] = last
        mayNameMessage.insert(consumer)
        receivedBefore[consumer, default: []] += new
    }

    /// Lets the gateway notice the end of a connection. Deliveries in flight are noticed before or after.
    private func end(_ connection: Connection, of consumer: String) {
        connections[consumer]?.removeAll { $0 === connection }
        let mine = held.filter {
            $0.value.connection == connection.number && machine.isKnownToHold($0.key, $0.value.consumer)
        }
        let lost = connection.lose(random.oneIn(2) ? random.below(3) : 0)
        note("connection \(connection.number) of \(consumer) ends without \(lost.map { $0.position.id(in: "") })")
        let isNoticedFirst = random.oneIn(2)
        if !isNoticedFirst { machine.release(consumer, connection.opening) }
        for (position, delivery) in lost { machine.unsent(position, delivery: delivery) }
        if isNoticedFirst { machine.release(consumer, connection.opening) }
        for position in mine.keys { held[position] = nil }
    }

    /// Loses the answer of a single request, or lets a consumer return all of its messages.
    func giveBack() {
        let consumer = random.pick(Self.consumers)
        let own = held.filter { $0.value.consumer == consumer && machine.isKnownToHold($0.key, consumer) }
        if random.oneIn(2), let one = own.max(by: { $0.value.number < $1.value.number })?.key {
            note("unsent \(one.id(in: "")) of \(consumer)")
            machine.unsent(one, delivery: machine.slots[one]?.delivery ?? 0)
            held[one] = nil
            return
        }
        if random.oneIn(2) { return loseForwardedPull(of: consumer, holding: Set(own.keys)) }
        note("\(consumer) gives everything back")
        machine.release(consumer, nil)
        for position in own.keys { held[position] = nil }
    }

    /// Loses the answer of a pull that another gateway has forwarded. Exactly its deliveries are returned.
    private func loseForwardedPull(of consumer: String, holding own: Set<FeedPosition>) {
        connectionCount += 1
        let connection = Connection(number: connectionCount)
        pull(1 + random.below(4), by: consumer, through: connection)
        let lost = held.filter { $0.value.connection == connection.number }.map(\.key)
        note("pull \(connection.number) of \(consumer) is lost")
        machine.release(consumer, connection.opening)
        for position in lost {
            check(!machine.isKnownToHold(position, consumer), "\(position.id(in: "")) did not go back")
            held[position] = nil
        }
        for position in own {
            check(machine.isKnownToHold(position, consumer), "\(position.id(in: "")) of another pull went back")
        }
    }

    /// Returns the id with which a consumer opens a connection: usually that of the last event that it received.
    private func named(by consumer: String) -> FeedEventID? {
        // The consumer may omit the id, or use one that it received long ago.
        if random.oneIn(6) { return nil }
        if random.oneIn(6), let old = receivedBefore[consumer], !old.isEmpty { return random.pick(old) }
        guard let last = lastReceived[consumer] else { return nil }
        // A pull gives the id of the message, which must be the last one of the former connection.
        return random.oneIn(3) && mayNameMessage.contains(consumer) ? FeedEventID(last.position) : last
    }

    /// Opens a connection with the id of an event or a message, or without an id. The former connection may not have
    /// ended.
    private func open(_ consumer: String) {
        connectionCount += 1
        let connection = Connection(number: connectionCount)
        if random.oneIn(3) { lastReceived[consumer] = nil }
        let id = named(by: consumer)
        if id?.position != lastReceived[consumer]?.position { mayNameMessage.remove(consumer) }
        note("\(consumer) opens \(connection.number) after \(id?.text(in: "") ?? "-")")
        let mine = held.filter { $0.value.consumer == consumer && machine.isKnownToHold($0.key, consumer) }
        let before = Set(machine.slots.keys)
        let outOfTurn = before.filter { failedMessage($0)?.state == .retry }
        let counted = machine.counters.acknowledged
        machine.open(consumer, connection.opening, after: id)
        for position in mine.keys { held[position] = nil }
        let done = before.subtracting(machine.slots.keys)
        check(machine.counters.acknowledged - counted == Int64(done.count), "acknowledgements are not counted")
        judge(done, of: consumer, after: id?.position, outOfTurn)
        newest[consumer] = connection
        acknowledged.formUnion(done)
        inferred += done.count
        connections[consumer, default: []].append(connection)
    }

    /// Checks acknowledgements by inference.
    ///
    /// - Parameter outOfTurn: Messages that lost their position in their key because an administrator had them retried.
    private func judge(
        _ done: Set<FeedPosition>, of consumer: String, after id: FeedPosition?, _ outOfTurn: Set<FeedPosition>
    ) {
        for position in done.sorted() {
            let name = position.id(in: "")
            check(id != nil, "\(name) is acknowledged by a consumer that named nothing")
            check(
                newest[consumer]?.hasBrought(position) ?? false,
                "\(name) is acknowledged, and never reached \(consumer) on its previous connection")
            check(held[position] == nil, "\(name) is acknowledged, and \(held[position]?.consumer ?? "") holds it")
            for other in machine.slots.keys
            where other < position && key(other) == key(position) && outOfTurn.isDisjoint(with: [other, position]) {
                check(false, "\(name) is acknowledged before \(other.id(in: "")) of its key")
            }
        }
    }
}
