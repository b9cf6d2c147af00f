import TestSupport
import Tree
import Wire

@testable import ClientCore

/// A client whose every step is compared with one that computes everything anew from what it was sent and what it has
/// written.
struct SyncModel {
    var client: SyncTree
    var server = SyncModelServer()
    var random: SeededGenerator
    var problems: [String] = []
    var log: [String] = []

    var replays: [RegistrationID: Replay] = [:]
    var pending: [PendingWrite] = []
    var requests: [SyncModelServer.Request] = []
    /// What is on its way; each element tells of one state.
    var messages: [[SyncModelServer.Message]] = []
    /// What each listen has been sent, until it ends.
    var received: [(spec: QuerySpec, tag: ListenTag?, number: Int, node: Node?, isMixed: Bool)] = []
    /// The numbers of those that the server has said to be complete.
    var complete: Set<Int> = []
    private var lastListen = 0
    /// Of what the client had when it asked, by the listens' numbers.
    private var hashes: [Int: String] = [:]
    let numbers = Numbers()
    /// What survives the app, for models that keep anything.
    let store: OddStore?
    var cache: CacheManager?
    var transactions: TransactionQueue
    /// How many outcomes each transaction has had.
    var outcomes: [TransactionID: Int] = [:]
    let many: Int

    /// Many listeners at few places, or few at more.
    let isCrowded: Bool

    init(seed: UInt64) {
        random = SeededGenerator(seed: seed)
        isCrowded = seed % 2 == 1
        // Found by an index from the first, from the third, or one after the other.
        many = [1, 3, 100][Int(seed % 3)]
        store = seed % 8 < 4 ? nil : OddStore()
        // As if much had to be pruned all the time, or nothing.
        store?.bytesFactor = seed % 8 < 6 ? 1 : 10_000
        cache = store.map { CacheManager(store: $0) }
        client = SyncTree(cache: cache, many: many)
        transactions = Self.transactions(client, numbers)
        _ = server.change(.root, .overwrite(node(depth: 3)))
    }

    mutating func step() {
        switch random.below(15) {
        case 0: listen()
        case 1: unlisten()
        case 2, 3: write()
        case 4: deliver(server.change(path(), .overwrite(node(depth: 2))))
        case 5: deliver(server.change(path(), .merge(changes())))
        case 6, 7, 8: perform()
        case 9: transact()
        case 10 where store != nil && random.oneIn(3): restart()
        default: receive()
        }
    }

    /// Lets everything arrive.
    mutating func settle() {
        while !requests.isEmpty || !messages.isEmpty {
            perform()
            receive()
        }
        check(everything: true)
        checkTransactions()
    }

    private mutating func perform() {
        guard !requests.isEmpty else { return }
        let request = requests.removeFirst()
        var hash: String?
        if case .listen(_, _, let number) = request, messages.isEmpty, random.oneIn(2) { hash = hashes[number] }
        deliver(server.perform(request, refuses: random.oneIn(4), hash: hash))
    }

    // MARK: Choosing

    mutating func path() -> Path {
        Path(
            (0..<random.below(isCrowded ? 3 : 4)).map { _ in Key(random.pick(isCrowded ? ["a"] : ["a", "b", "c", "1"]))
            })
    }

    private mutating func leaf() -> Node { random.pick([.int(1), .int(2), .int(3), .bool(true), .string("x")]) }

    private mutating func node(depth: Int) -> Node {
        if depth == 0 || random.oneIn(4) { return random.oneIn(4) ? .null : leaf() }
        let keys = ["a", "b", "c", "d", "e", "1", "10"]
        return Node(
            children: (0..<random.below(6)).map { _ in (Key(random.pick(keys)), node(depth: depth - 1)) })
    }

    mutating func changes() -> [Change] {
        var changes: [Change] = []
        for _ in 0..<(1 + random.below(3)) {
            let place = Path([Key(random.pick(["a", "b", "c", "d"]))] + path().keys)
            guard !changes.contains(where: { $0.path.contains(place) || place.contains($0.path) }) else { continue }
            changes.append(Change(path: place, value: node(depth: 1)))
        }
        return changes
    }

    private mutating func query() -> Query {
        if random.oneIn(2) { return Query() }
        var query = Query(index: random.pick([.key, .value, .child(Path([Key("a")])), .priority]))
        if random.oneIn(3) {
            let value: Node = query.index == .key ? .string(random.pick(["1", "b", "c"])) : leaf()
            query.start = .init(value: .init(value), isInclusive: random.oneIn(2))
        }
        if random.oneIn(4) {
            let value: Node = query.index == .key ? .string(random.pick(["b", "d", "x"])) : leaf()
            query.end = .init(value: .init(value), isInclusive: random.oneIn(2))
        }
        if !random.oneIn(3) {
            query.limit = random.oneIn(2) ? .first(1 + random.below(3)) : .last(1 + random.below(3))
        }
        return query
    }

    // MARK: Doing

    private mutating func listen() {
        guard replays.count < (isCrowded ? 24 : 8) else { return }
        let kinds: EventKinds = random.pick([.value, .allChildren, [.value, .allChildren], [.value, .allChildren]])
        let registration = Registration(
            id: numbers.registration(), spec: QuerySpec(path: path(), query: query()), kinds: kinds)
        listen(registration)
    }

    mutating func listen(_ registration: Registration) {
        replays[registration.id] = Replay(registration)
        let text = "\(Self.text(registration.spec)) \(registration.kinds.rawValue) #\(registration.id.rawValue)"
        follow(client.add(registration), "listen \(text)")
    }

    private mutating func unlisten() {
        let ids = replays.keys.sorted { $0.rawValue < $1.rawValue }
        guard !ids.isEmpty, let replay = replays.removeValue(forKey: random.pick(ids)) else { return }
        follow(client.remove(replay.registration), "unlisten #\(replay.registration.id.rawValue)")
    }

    private mutating func write() {
        var content: PendingWrite.Content = random.oneIn(2) ? .overwrite(node(depth: 2)) : .merge(changes())
        if random.oneIn(4) {
            let increment = Node.serverValue(ServerValue(.increment(.int(1 + Int64(random.below(3))))))
            content =
                random.oneIn(2) ? .overwrite(increment) : .merge([Change(path: Path([Key("b")]), value: increment)])
        }
        let write = PendingWrite(id: numbers.write(), path: path(), content: content)
        let counted = counted(write)
        pending.append(write)
        requests.append(.write(write))
        cache?.save(write)
        follow(client.apply(write, estimate: content), "write \(write.id.rawValue) \(write.path) \(Self.text(content))")
        checkCounted(write, counted)
        let places = changes(of: write).map(\.path)
        follow(transactions.overridden(at: places), "overridden")
    }

    mutating func deliver(_ group: [SyncModelServer.Message]) {
        if !group.isEmpty { messages.append(group) }
    }

    private mutating func receive() {
        guard !messages.isEmpty else { return }
        let message = messages[0].removeFirst()
        isWithinState = !messages[0].isEmpty
        if !isWithinState { messages.removeFirst() }
        switch message {
        case .data(let event, let spec, let tag, let number):
            note(event, number, of: spec)
            switch event {
            case .put(let place, let node):
                follow(
                    client.applyServer(node, at: spec.path.appending(place), tag: tag),
                    "put \(place) of \(Self.text(spec)) \(Self.text(node))")
            case .patch(let place, let changes):
                follow(
                    client.applyServer(changes, at: spec.path.appending(place), tag: tag),
                    "patch \(place) of \(Self.text(spec)) \(Self.text(.merge(changes)))")
            }
        case .same(let node, let spec, _, let number):
            log.append("same \(Self.text(spec)) \(Self.text(node))")
            note(.put(.root, node), number, of: spec)
        case .complete(let spec, let tag):
            if let listen = received.first(where: { $0.spec == spec && $0.tag == tag }) {
                complete.insert(listen.number)
            }
            follow(client.completeListen(spec, tag: tag), "complete \(Self.text(spec))")
        case .answer(let id, let isRefused):
            let places = pending.first { $0.id == id }.map { changes(of: $0).map(\.path) } ?? []
            pending.removeAll { $0.id == id }
            follow(client.acknowledge(id, isRefused: isRefused), "answer \(id.rawValue) \(isRefused)")
            for place in places where isRefused { follow(transactions.dataChanged(at: place), "refused") }
        case .transactionAnswer(let id, let outcome):
            if let effects = transactions.answered(id, outcome) {
                follow(effects, "transaction \(id.rawValue) \(outcome)")
            }
        }
        guard case .data(let event, let spec, _, _) = message else { return }
        let place =
            switch event {
            case .put(let place, _): place
            case .patch(let place, _): place
            }
        follow(transactions.dataChanged(at: spec.path.appending(place)), "changed")
    }

    /// Whether more messages of the same state are to come.
    var isWithinState = false

    private mutating func note(_ event: ChangeEvent, _ number: Int, of spec: QuerySpec) {
        guard let index = received.firstIndex(where: { $0.number == number }) else {
            // What comes late of a listen to all of a place tells filtered queries there more than they asked for.
            for index in received.indices
            where received[index].tag != nil
                && (spec.path.contains(received[index].spec.path) || received[index].spec.path.contains(spec.path))
            {
                received[index].isMixed = true
            }
            return
        }
        received[index].isMixed = false
        switch event {
        case .put(let place, let node):
            guard received[index].node != nil || place.isRoot else { return }
            received[index].node = (received[index].node ?? .null).replacing(place, with: node)
        case .patch(let place, let changes):
            for change in changes {
                received[index].node = received[index].node?.replacing(
                    place.appending(change.path), with: change.value)
            }
        }
    }

    mutating func follow(_ effects: SyncEffects, _ step: String, isOneStep: Bool = true) {
        guard problems.isEmpty else { return }
        cache?.commit()
        log.append(step)
        for listen in effects.listens {
            switch listen {
            case .start(let spec, let tag):
                log.append("  start \(Self.text(spec)) \(tag?.rawValue ?? 0)")
                lastListen += 1
                requests.append(.listen(spec, tag, lastListen))
                hashes[lastListen] = client.serverValue(of: spec).node.hash
                received.append((spec, tag, lastListen, nil, false))
            case .stop(let spec, let tag):
                log.append("  stop \(Self.text(spec)) \(tag?.rawValue ?? 0)")
                requests.append(.unlisten(spec, tag))
                received.removeAll { $0.spec == spec && $0.tag == tag }
            }
        }
        for event in effects.events {
            log.append("  #\(event.registration.rawValue) \(event.kind) \(Self.text(event.node))")
        }
        let told = Dictionary(grouping: effects.events, by: \.registration)
        for (id, events) in told {
            guard var replay = replays[id] else {
                problems.append("#\(id.rawValue) is told after it left")
                continue
            }
            problems += replay.take(events, isOneStep: isOneStep).map { "#\(id.rawValue): \($0)" }
            replays[id] = replay
        }
        if !isWithinState { check(everything: false) }
    }
}
