import TestSupport
import Tree
import Wire

@testable import ClientCore

/// A client whose every step is compared with one that computes everything anew from what it was sent and what it has
/// written.
struct SyncModel {
    let client = SyncTree()
    var server = SyncModelServer()
    var random: SeededGenerator
    private var generator: TreeGenerator
    var problems: [String] = []
    private(set) var log: [String] = []

    var replays: [RegistrationID: Replay] = [:]
    var pending: [PendingWrite] = []
    private var requests: [SyncModelServer.Request] = []
    /// What is on its way; each element tells of one state.
    private var messages: [[SyncModelServer.Message]] = []
    /// What each listen has been sent, until it ends.
    private(set) var received: [(spec: QuerySpec, tag: ListenTag?, number: Int, node: Node?, isMixed: Bool)] = []
    private var lastListen = 0
    private var lastWrite: Int64 = 0
    private var lastRegistration: UInt64 = 0

    init(seed: UInt64) {
        random = SeededGenerator(seed: seed)
        generator = TreeGenerator(seed: seed &+ 1)
        _ = server.change(.root, .overwrite(node(depth: 3)))
    }

    mutating func step() {
        if random.oneIn(40) { return loseConnection() }
        switch random.below(12) {
        case 0: listen()
        case 1: unlisten()
        case 2, 3: write()
        case 4: deliver(server.change(path(), .overwrite(node(depth: 2))))
        case 5: deliver(server.change(path(), .merge(changes())))
        case 6, 7, 8:
            guard !requests.isEmpty else { return }
            perform()
        default: receive()
        }
    }

    /// Lets everything arrive.
    mutating func settle() {
        while !requests.isEmpty || !messages.isEmpty {
            if !requests.isEmpty { perform() }
            receive()
        }
        check(everything: true)
    }

    // MARK: Choosing

    private mutating func path() -> Path {
        Path((0..<random.below(4)).map { _ in Key(random.pick(["a", "b", "c", "1"])) })
    }

    private mutating func leaf() -> Node {
        random.pick([Node.int(1), .int(2), .int(3), .bool(true), .string("x")]).withPriority(priority())
    }

    private mutating func priority() -> Node {
        random.oneIn(6) ? random.pick([.int(1), .int(2), .string("p")]) : .null
    }

    private mutating func node(depth: Int) -> Node {
        if depth == 0 || random.oneIn(4) { return random.oneIn(4) ? .null : leaf() }
        let keys = ["a", "b", "c", "d", "e", "1", "10"]
        return Node(
            children: (0..<random.below(6)).map { _ in (Key(random.pick(keys)), node(depth: depth - 1)) },
            priority: priority())
    }

    private mutating func changes() -> [Change] {
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
            let value = query.index == .key ? .string(random.pick(["1", "b", "c"])) : leaf().withoutPriority
            query.start = .init(value: .init(value), isInclusive: random.oneIn(2))
        }
        if random.oneIn(4) {
            let value = query.index == .key ? .string(random.pick(["b", "d", "x"])) : leaf().withoutPriority
            query.end = .init(value: .init(value), isInclusive: random.oneIn(2))
        }
        if !random.oneIn(3) {
            query.limit = random.oneIn(2) ? .first(1 + random.below(3)) : .last(1 + random.below(3))
        }
        return query
    }

    // MARK: Doing

    private mutating func listen() {
        guard replays.count < 8 else { return }
        lastRegistration += 1
        let kinds: EventKinds = random.pick([.value, .allChildren, [.value, .allChildren], [.value, .allChildren]])
        let registration = Registration(
            id: RegistrationID(rawValue: lastRegistration), spec: QuerySpec(path: path(), query: query()), kinds: kinds)
        replays[registration.id] = Replay(registration)
        follow(
            client.add(registration), "listen \(Self.text(registration.spec)) \(kinds.rawValue) #\(lastRegistration)")
    }

    private mutating func unlisten() {
        let ids = replays.keys.sorted { $0.rawValue < $1.rawValue }
        guard !ids.isEmpty, let replay = replays.removeValue(forKey: random.pick(ids)) else { return }
        follow(client.remove(replay.registration), "unlisten #\(replay.registration.id.rawValue)")
    }

    private mutating func write() {
        lastWrite += 1
        var content: PendingWrite.Content = random.oneIn(2) ? .overwrite(node(depth: 2)) : .merge(changes())
        var place = path()
        if random.oneIn(6), place.depth > 0 {
            place = place.appending(.priority)
            content = .overwrite(random.pick([.null, .int(1), .int(2), .string("p")]))
        }
        let write = PendingWrite(id: WriteID(rawValue: lastWrite), path: place, content: content)
        pending.append(write)
        requests.append(.write(write))
        follow(client.apply(write, estimate: content), "write \(lastWrite) \(write.path) \(Self.text(content))")
    }

    private mutating func perform() {
        let request = requests.removeFirst()
        var known: Node?
        if case .listen(_, _, let number) = request, random.oneIn(2) {
            known = received.first { $0.number == number && !$0.isMixed }?.node
        }
        deliver(server.perform(request, refuses: random.oneIn(4), known: known))
    }

    /// What was on its way is lost, and all that is still wanted is asked for anew: first the listens, then the writes,
    /// even those that the server has done.
    private mutating func loseConnection() {
        guard !isWithinState else { return }
        log.append("the connection is lost")
        messages = []
        server.forgetListens()
        requests =
            received.map { .listen($0.spec, $0.tag, $0.number) } + pending.map { .write($0) }
    }

    private mutating func deliver(_ group: [SyncModelServer.Message]) {
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
        case .complete(let spec, let tag): follow(client.completeListen(spec, tag: tag), "complete \(Self.text(spec))")
        case .answer(let id, let isRefused):
            pending.removeAll { $0.id == id }
            follow(client.acknowledge(id, isRefused: isRefused), "answer \(id.rawValue) \(isRefused)")
        }
    }

    /// Whether more messages of the same state are to come.
    private var isWithinState = false

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

    private mutating func follow(_ effects: SyncEffects, _ step: String) {
        guard problems.isEmpty else { return }
        log.append(step)
        for listen in effects.listens {
            switch listen {
            case .start(let spec, let tag):
                log.append("  start \(Self.text(spec)) \(tag?.rawValue ?? 0)")
                lastListen += 1
                requests.append(.listen(spec, tag, lastListen))
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
            problems += replay.take(events).map { "#\(id.rawValue): \($0)" }
            replays[id] = replay
        }
        if !isWithinState { check(everything: false) }
    }

    // MARK: Saying what happened

    static func text(_ node: Node) -> String {
        String(decoding: JSONWriter.encode(node, form: .export), as: UTF8.self)
    }

    private static func text(_ content: PendingWrite.Content) -> String {
        switch content {
        case .overwrite(let node): text(node)
        case .merge(let changes): changes.map { "\($0.path)=\(text($0.value))" }.joined(separator: " ")
        }
    }

    private static func text(_ spec: QuerySpec) -> String {
        let query = spec.query
        let bounds = [("start", query.start), ("end", query.end)].compactMap { name, bound in
            bound.map { "\(name)\($0.isInclusive ? "At" : "") \(text($0.value.node))" }
        }
        return "\(spec.path) by \(query.index) \(bounds) \(query.limit.map { "\($0)" } ?? "")"
    }
}
