import Runtime
import TestSupport
import Testing
import Tree

@testable import Gateway

/// Checks that no client waits forever and that one client at a time holds the slot, for every order of events among
/// clients that contend for a path. Runs all short sequences of events and long random ones against a model of the
/// queue's users.
@Suite struct TransactionQueueOrderTests {
    @Test func everyOrderOfEvents() {
        var count = 0
        QueueWorld(clients: 2).explore(depth: 6, &count)
        #expect(count > 20_000)
    }

    @Test(arguments: 1...20 as ClosedRange<UInt64>) func longLives(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var world = QueueWorld(clients: 6)
        for _ in 0..<1_500 { world.apply(random.pick(world.events)) }
        world.settle()
    }

    // MARK: Several gateways

    /// Checks that all additions count and no client gives up if clients of three gateways add to one number, each by
    /// reading and writing. Messages between the gateways arrive late or are lost.
    @Test(arguments: [0, 3, 10, 100], 1...4 as ClosedRange<UInt64>)
    func severalGatewaysAdd(lostPercent: Int, seed: UInt64) {
        var world = GatewaysWorld(gateways: 3, clientsEach: 4, lostPercent: lostPercent, seed: seed)
        let isDone = world.run()
        #expect(isDone, "every client has added what it wanted")
        #expect(world.value == world.wanted)
        #expect(world.areQueuesEmpty)
    }

    /// Checks that clients succeed if their other writes send their transactions early. Clients give up after 25
    /// refusals.
    @Test(arguments: [10, 20], 1...1 as ClosedRange<UInt64>)
    func clientsThatAlsoWriteElsewhere(pause: Int64, seed: UInt64) {
        var world = GatewaysWorld(
            gateways: 2, clientsEach: 30, lostPercent: 0, seed: seed, patience: 400, pause: pause)
        let isDone = world.run()
        #expect(isDone, "every client has added what it wanted")
        #expect(world.mostRefusals < 25)
        #expect(world.value == world.wanted && world.areQueuesEmpty)
    }

    /// Checks that the messages reduce refusals: without them a client of a busy path is refused more often.
    @Test func messagesSpareRefusals() {
        var worst: [Int: Int] = [:]
        for lostPercent in [0, 100] {
            for seed in 1...10 as ClosedRange<UInt64> {
                var world = GatewaysWorld(gateways: 3, clientsEach: 4, lostPercent: lostPercent, seed: seed)
                #expect(world.run() == true)
                worst[lostPercent, default: 0] += world.mostRefusals
            }
        }
        #expect((worst[0] ?? 0) <= (worst[100] ?? 0), "\(worst)")
    }
}

// MARK: - One queue

/// A queue and its clients, which behave like sessions: each has at most one write in flight.
private struct QueueWorld {
    enum Event {
        /// The client has a write, which may wait or not.
        case arrives(Int, mayWait: Bool)
        /// The client's write in flight was refused, or succeeded.
        case refused(Int)
        case succeeded(Int)
        /// Another request of the client follows the waiting write.
        case sendsEarly(Int)
        case gone(Int)
        case asks, isDone
        /// An amount of time passes, and slots that have started are checked.
        case time
    }

    private enum State { case idle, waiting, sending }

    private var queue = TransactionTurns()
    private var clients: [State]
    /// The number of refusals per client since the queue knows the client.
    private var refusals: [Int]
    /// The clients that the queue knows: those that were refused or wait.
    private var members: Set<String> = []
    /// The slots that have started and are checked.
    private var slots: [TransactionTurns.Slot] = []
    private var now: Int64 = 0
    private static let patience: Int64 = 100
    private static let remote = "gateway x"

    init(clients count: Int) {
        clients = Array(repeating: .idle, count: count)
        refusals = Array(repeating: 0, count: count)
    }

    private func name(_ client: Int) -> String { "c\(client)" }

    /// The events that are possible now.
    var events: [Event] {
        var events: [Event] = [.asks, .isDone, .time]
        for (client, state) in clients.enumerated() {
            switch state {
            case .idle: events += [.arrives(client, mayWait: true), .arrives(client, mayWait: false)]
            case .waiting: events += [.sendsEarly(client)]
            case .sending: events += [.refused(client), .succeeded(client)]
            }
            events.append(.gone(client))
        }
        return events
    }

    func explore(depth: Int, _ count: inout Int) {
        guard depth > 0 else {
            var end = self
            return end.settle()
        }
        for event in events {
            var next = self
            next.apply(event)
            count += 1
            next.explore(depth: depth - 1, &count)
        }
    }

    mutating func apply(_ event: Event) {
        now += 1
        switch event {
        case .arrives(let client, let mayWait):
            let arrival = queue.arrives(name(client), mayWait: mayWait, at: now)
            clients[client] = arrival == .isSent ? .sending : .waiting
            if arrival != .isSent { members.insert(name(client)) }
            let mostBefore = TransactionTurns.refusalsBeforeHolding - 1
            switch arrival {
            case .waits where !mayWait: Issue.record("who may not wait waits")
            case .holds where refusals[client] <= mostBefore: Issue.record("held after \(refusals[client]) refusals")
            case .waits where refusals[client] > mostBefore: Issue.record("not held after \(refusals[client]) refusals")
            default: break
            }
        case .refused(let client):
            clients[client] = .idle
            members.insert(name(client))
            refusals[client] += 1
            follow(queue.wasRefused(name(client), at: now))
        case .succeeded(let client):
            clients[client] = .idle
            leave(client)
        case .sendsEarly(let client):
            queue.sendsEarly(name(client))
            clients[client] = .sending
        case .gone(let client):
            clients[client] = .idle
            leave(client)
        case .asks:
            members.insert(Self.remote)
            follow(queue.asks(Self.remote, at: now))
        case .isDone:
            members.remove(Self.remote)
            follow(queue.leaves(Self.remote, at: now))
        case .time:
            now += 60
            look()
        }
        if queue.isEmpty != members.isEmpty { Issue.record("the queue keeps \(members)") }
    }

    private mutating func leave(_ client: Int) {
        members.remove(name(client))
        refusals[client] = 0
        follow(queue.leaves(name(client), at: now))
    }

    private mutating func follow(_ outcome: TransactionTurns.Outcome) {
        guard let slot = outcome.next else { return }
        if !members.contains(slot.session) { Issue.record("\(slot.session) has a slot and is not there") }
        slots.append(slot)
        guard let client = clients.indices.first(where: { name($0) == slot.session }) else { return }
        if case .waiting = clients[client] { clients[client] = .sending }
    }

    /// Checks every slot that has started, as its gateway does by a timer.
    private mutating func look() {
        let looked = slots
        slots.removeAll()
        var current = 0
        for slot in looked {
            switch queue.check(slot, patience: Self.patience, at: now) {
            case .over: break
            case .continues(let time):
                if time <= 0 { Issue.record("a look at once") }
                current += 1
                slots.append(slot)
            case .expired(let outcome):
                members.remove(slot.session)
                if let client = clients.indices.first(where: { name($0) == slot.session }) { refusals[client] = 0 }
                follow(outcome)
            }
        }
        if current > 1 { Issue.record("\(current) slots at a time") }
    }

    /// Lets all sending clients succeed, and time pass. Afterwards no client waits, and the queue is empty.
    mutating func settle() {
        for _ in 0..<60 {
            for client in clients.indices { if case .sending = clients[client] { apply(.succeeded(client)) } }
            apply(.time)
            apply(.time)
        }
        for client in clients.indices { if case .waiting = clients[client] { Issue.record("client \(client) waits") } }
        // The queue forgets a client that was refused and never returns.
        if !queue.isEmpty { Issue.record("the queue is left with \(members)") }
    }
}

// MARK: - Several gateways

/// Gateways with clients that contend for one number. Time is simulated: events run one at a time, earliest first.
private struct GatewaysWorld {
    private struct Client {
        let gateway: Int
        /// The number of additions that the client still has to make.
        var left: Int
        var read = 0
        var refusals = 0
        var isWaiting = false
        /// Whether the client's other writes wait as well.
        var isHolding = false
        /// The number of times that the client has waited.
        var waits = 0
    }

    private enum Work {
        /// The client writes at another path.
        case other(Int)
        /// The client has waited too long, if it still waits for the same slot.
        case late(Int, waits: Int)
        /// The client has read, and now writes.
        case send(Int)
        /// The client's write reaches the database.
        case commit(Int)
        /// A notice reaches a gateway.
        case notice(TransactionTurns.Notice, from: Int, to: Int)
        case check(TransactionTurns.Slot, gateway: Int)
    }

    private(set) var value = 0
    let wanted: Int
    private(set) var mostRefusals = 0
    private var clients: [Client] = []
    private var queues: [TransactionTurns]
    private var agenda: [(time: Int64, order: Int, work: Work)] = []
    private var orders = 0
    private var now: Int64 = 0
    private var random: SeededGenerator
    private let lostPercent: Int
    private let patience: Int64
    /// Milliseconds between two other writes of a client, or 0 for no other writes.
    private let pause: Int64

    init(
        gateways: Int, clientsEach: Int, lostPercent: Int, seed: UInt64, patience: Int64 = 40, pause: Int64 = 0
    ) {
        random = SeededGenerator(seed: seed)
        self.lostPercent = lostPercent
        self.patience = patience
        self.pause = pause
        queues = Array(repeating: TransactionTurns(), count: gateways)
        for gateway in 0..<gateways {
            for _ in 0..<clientsEach { clients.append(Client(gateway: gateway, left: 5)) }
        }
        wanted = clients.count * 5
        for client in clients.indices {
            add(.send(client), after: Int64(random.below(10)))
            if pause > 0 { add(.other(client), after: 1 + Int64(random.below(Int(pause)))) }
        }
    }

    var areQueuesEmpty: Bool { queues.allSatisfy(\.isEmpty) }

    private mutating func add(_ work: Work, after delay: Int64) {
        orders += 1
        agenda.append((now + delay, orders, work))
    }

    /// Runs the simulation. Returns false if it does not end.
    mutating func run() -> Bool {
        var steps = 0
        while let next = agenda.indices.min(by: {
            (agenda[$0].time, agenda[$0].order) < (agenda[$1].time, agenda[$1].order)
        }) {
            steps += 1
            if steps > 500_000 { return false }
            let (time, _, work) = agenda.remove(at: next)
            now = time
            perform(work)
        }
        return clients.allSatisfy { $0.left == 0 }
    }

    private mutating func perform(_ work: Work) {
        switch work {
        case .send(let client):
            let gateway = clients[client].gateway
            clients[client].read = value
            let arrival = queues[gateway].arrives("\(client)", mayWait: true, at: now)
            guard arrival != .isSent else { return add(.commit(client), after: Int64(1 + random.below(5))) }
            clients[client].isWaiting = true
            clients[client].isHolding = arrival == .holds
            clients[client].waits += 1
            add(.late(client, waits: clients[client].waits), after: patience * 10)
        case .other(let client):
            if !clients[client].isHolding { sendEarly(client) }
            if clients[client].left > 0 { add(.other(client), after: pause) }
        case .late(let client, let waits):
            if clients[client].waits == waits { sendEarly(client) }
        case .commit(let client): commit(client)
        case .notice(let kind, let from, let to):
            let name = "gateway \(from)"
            switch kind {
            case .asks: follow(queues[to].asks(name, at: now), gateway: to)
            case .isDone: follow(queues[to].leaves(name, at: now), gateway: to)
            }
        case .check(let slot, let gateway):
            switch queues[gateway].check(slot, patience: patience, at: now) {
            case .over: break
            case .continues(let time): add(.check(slot, gateway: gateway), after: time)
            case .expired(let outcome): follow(outcome, gateway: gateway)
            }
        }
    }

    private mutating func sendEarly(_ client: Int) {
        guard clients[client].isWaiting else { return }
        queues[clients[client].gateway].sendsEarly("\(client)")
        endWait(client)
    }

    /// Sends the waiting write unchanged, with the value that was read when it arrived.
    private mutating func endWait(_ client: Int) {
        clients[client].isWaiting = false
        clients[client].isHolding = false
        add(.commit(client), after: Int64(1 + random.below(5)))
    }

    private mutating func commit(_ client: Int) {
        let gateway = clients[client].gateway
        guard clients[client].read == value else {
            clients[client].refusals += 1
            mostRefusals = max(mostRefusals, clients[client].refusals)
            follow(queues[gateway].wasRefused("\(client)", at: now), gateway: gateway)
            return add(.send(client), after: Int64(1 + random.below(3)))
        }
        value += 1
        clients[client].left -= 1
        clients[client].refusals = 0
        follow(queues[gateway].leaves("\(client)", at: now), gateway: gateway)
        if clients[client].left > 0 { add(.send(client), after: Int64(random.below(10))) }
    }

    private mutating func follow(_ outcome: TransactionTurns.Outcome, gateway: Int) {
        if let notice = outcome.notice {
            for other in queues.indices where other != gateway && random.below(100) >= lostPercent {
                add(.notice(notice, from: gateway, to: other), after: Int64(1 + random.below(8)))
            }
        }
        guard let slot = outcome.next else { return }
        add(.check(slot, gateway: gateway), after: patience)
        guard !slot.isRemote, let client = Int(slot.session), clients[client].isWaiting else { return }
        endWait(client)
    }
}
