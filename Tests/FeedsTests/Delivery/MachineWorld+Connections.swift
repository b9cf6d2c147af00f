import TestSupport

@testable import Feeds

/// Connections of consumers that end at any byte, and consumers that open the next one with the last id that they received.
extension MachineWorld {
    /// A connection of a consumer. What it is handed arrives in order, until the connection breaks.
    final class Connection {
        let number: Int
        let opening = FeedOpening()
        /// What it was handed, and how much of that has arrived.
        private var handed: [(position: FeedPosition, delivery: UInt64)] = []
        private var arrived = 0

        init(number: Int) { self.number = number }

        func add(_ delivery: FeedMachine.Delivery) { handed.append((delivery.message.position, delivery.number)) }

        /// The consumer receives some more. Returns it.
        func receive(_ count: Int) -> [FeedEventID] {
            let new = handed[arrived...].prefix(count).map { FeedEventID($0.position, delivery: $0.delivery) }
            arrived += new.count
            return new
        }

        /// The last so many of what it was handed never arrive, if they have not by now. Returns them.
        func lose(_ count: Int) -> [(position: FeedPosition, delivery: UInt64)] {
            let lost = Array(handed[arrived...].suffix(count))
            handed.removeLast(lost.count)
            return lost
        }

        func hasBrought(_ position: FeedPosition) -> Bool { handed[..<arrived].contains { $0.position == position } }
    }

    /// A step of some consumer's connection.
    func connect() {
        let consumer = random.pick(Self.consumers)
        let open = connections[consumer] ?? []
        switch random.below(8) {
        case 0: self.open(consumer)
        case 1: visit(consumer)
        case 2, 3, 4:
            // Mostly by its newest connection; a former one need not have noticed that it is one.
            guard !open.isEmpty else { return self.open(consumer) }
            pull(1 + random.below(4), by: consumer, through: random.oneIn(6) ? random.pick(open) : open[open.count - 1])
        case 5, 6:
            receive(consumer, random.below(5))
        default:
            guard !open.isEmpty else { return }
            end(random.pick(open), of: consumer)
        }
    }

    /// A connection is opened, brings something, and breaks; others are served before the consumer comes back.
    private func visit(_ consumer: String) {
        open(consumer)
        // The former connection need not have noticed that it is one.
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

    /// What the consumer received last fails, and comes again on the same connection, after others that do not arrive.
    private func repeatLast(_ consumer: String) {
        guard let connection = newest[consumer], let last = lastReceived[consumer] else { return }
        reject(last.position, by: consumer)
        pull(1 + random.below(3), by: consumer, through: connection)
        wait(150)
        pull(6, by: consumer, through: connection)
    }

    private func receive(_ consumer: String, _ count: Int) {
        // What a former connection still brings does not count: the consumer has closed it.
        guard let new = newest[consumer]?.receive(count), let last = new.last else { return }
        note("\(consumer) receives \(new.map { $0.text(in: "") })")
        lastReceived[consumer] = last
        mayNameMessage.insert(consumer)
        receivedBefore[consumer, default: []] += new
    }

    /// The gateway notices the end of a connection. What was on its way to the socket is noticed before or after.
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

    /// A request that stands for itself does not reach its consumer, or a consumer gives everything back.
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

    /// The answer of a pull that another gateway has forwarded does not reach its consumer: that goes back, and nothing else.
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

    /// What a consumer names when it opens a connection: mostly the last event that it received.
    private func named(by consumer: String) -> FeedEventID? {
        // It may forget to name the event this time, or name one that it received long ago.
        if random.oneIn(6) { return nil }
        if random.oneIn(6), let old = receivedBefore[consumer], !old.isEmpty { return random.pick(old) }
        guard let last = lastReceived[consumer] else { return nil }
        // A pull names the message. It has to be the last one of the former connection.
        return random.oneIn(3) && mayNameMessage.contains(consumer) ? FeedEventID(last.position) : last
    }

    /// A consumer opens a connection, with the id of an event or a message or without one. The former one may not have ended.
    private func open(_ consumer: String) {
        connectionCount += 1
        let connection = Connection(number: connectionCount)
        if random.oneIn(3) { lastReceived[consumer] = nil }
        let id = named(by: consumer)
        if id?.position != lastReceived[consumer]?.position { mayNameMessage.remove(consumer) }
        note("\(consumer) opens \(connection.number) after \(id?.text(in: "") ?? "-")")
        let mine = held.filter { $0.value.consumer == consumer && machine.isKnownToHold($0.key, consumer) }
        let before = Set(machine.slots.keys)
        let outOfTurn = before.filter { letter($0)?.state == .retry }
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

    /// What may be acknowledged by inference.
    ///
    /// - Parameter outOfTurn: messages that lost their places in their keys, as an administrator had them tried once more.
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
