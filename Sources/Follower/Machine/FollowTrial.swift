import ClientCore
package import Tree
import Wire

/// A follower's machine beside a namespace in memory, for programs that play a hostile upstream.
///
/// It executes the machine's effects in an order that real threads could have, and notes the first rule that is broken.
/// The plan need not cover the whole tree, so that changes outside the parts are found.
package struct FollowTrial {
    /// The outcome that the trial gives a submitted write.
    package enum Outcome: Sendable {
        case committed
        /// The answer is lost after the commit.
        case unknown
        case failed
        case refused
    }

    private var machine: FollowMachine
    private var connection: ConnectionNumber?
    private var now: Int64 = 0
    private var queue: [FollowWrite] = []
    private var held: ArraySlice<[UInt8]> = []
    private var position: Int64 = 0
    private var lastNumber: Int64 = 0
    private var wantsPosition = false
    private var asked: FollowPart?
    private var requests: [Int64] = []

    /// The namespace's tree.
    package private(set) var root: Node
    package private(set) var submitted = 0
    package private(set) var sent = 0
    package private(set) var notices = 0
    /// The first broken rule.
    package private(set) var fault: String?

    /// Creates a follower that has begun to connect.
    ///
    /// - Parameter plan: the stored form of its parts. Nil if it can't be parsed.
    package init?(plan: String, root: Node) {
        guard let plan = FollowPlan(stored: plan) else { return nil }
        var connection = ConnectionSettings(host: "localhost", port: 80, isSecure: false, namespace: "demo")
        connection.maxMessageBytes = 1 << 16
        connection.asksForExtension = false
        connection.followsGreeting = true
        var settings = FollowSettings(connection)
        settings.maxInFlight = 16
        machine = FollowMachine(settings, plan: plan, seed: 1)
        self.root = root
        machine.start(now: 0)
        settle()
    }

    // MARK: The upstream

    /// Passes a text message to the machine as soon as it takes messages.
    package mutating func hear(_ text: [UInt8]) {
        held.append(text)
        settle()
    }

    /// Greets, and answers all open requests with `ok`.
    package mutating func behave() {
        hear(ServerMessage.hello(timestamp: 1_700_000_000_000, host: "localhost", session: "s"))
        for _ in 0..<100 where !requests.isEmpty {
            let open = requests
            requests = []
            for number in open { hear(ServerMessage.answer(number, "ok", .emptyObject)) }
        }
    }

    /// Breaks the connection. Messages on the way are lost.
    package mutating func cut() {
        held = []
        requests = []
        guard let connection, !machine.isBlocked else { return }
        machine.transport(.closed(.broken("cut")), of: connection, now: now)
        settle()
    }

    /// Lets time pass to the next deadline of the machine.
    package mutating func wait() {
        guard let deadline = machine.deadline else { return }
        now = max(now, deadline)
        machine.timePassed(now: now)
        settle()
    }

    /// Answers the request for the keys at a part's path.
    package mutating func list(_ keys: [Key]) {
        guard let part = asked else { return }
        asked = nil
        machine.keysFound(part, keys.filter { !part.isRange || part.includes($0) }.sorted(), now: now)
        settle()
    }

    // MARK: The namespace

    /// Ends all submitted writes: the first one with an outcome, and those after it as the database would.
    package mutating func answer(_ outcome: Outcome) {
        var outcome = outcome
        let writes = queue
        queue = []
        for write in writes {
            // The database rejects a write that does not follow the position.
            let isNext = write.number == position + 1
            if isNext, outcome == .committed || outcome == .unknown { apply(write) }
            let result: FollowOutcome =
                switch (isNext, outcome) {
                case (true, .committed): .committed(seq: write.number)
                case (true, .refused): .refused("it can't be stored")
                default: .failed("the database is away")
                }
            machine.answered(write.number, result, now: now)
            outcome = .committed
        }
        settle()
    }

    /// Answers everything, and checks that the machine then takes messages again.
    package mutating func finish() {
        for _ in 0..<1_000 {
            guard machine.isBlocked || !queue.isEmpty else { break }
            answer(.committed)
            list([])
        }
        if machine.isBlocked { note("the machine takes no more messages, although nothing is in flight") }
        if machine.inFlight != 0 || machine.bytesInFlight != 0 { note("\(machine.inFlight) writes stay in flight") }
        machine.stop(now: now)
        settle()
        if machine.connection.isConnected { note("a stopped machine is connected") }
    }

    private mutating func apply(_ write: FollowWrite) {
        position = write.number
        guard case .changes(let changes) = write.content else { return }
        root = root.replacing(ApplicationOrder.sorted(changes))
    }

    // MARK: Effects

    private mutating func settle() {
        for _ in 0..<10_000 {
            if machine.hasEffects {
                execute()
            } else if wantsPosition, queue.isEmpty {
                wantsPosition = false
                lastNumber = position
                machine.positionFound(position, now: now)
            } else if machine.wantsRoot, machine.inFlight == 0 {
                machine.rootFound(root, now: now)
                if machine.wantsRoot, machine.inFlight == 0, !machine.hasEffects {
                    return note("the machine asks for the tree again and again")
                }
            } else if !machine.isBlocked, let connection, let text = held.popFirst() {
                machine.transport(.received(text), of: connection, now: now)
            } else {
                return check()
            }
        }
        note("the machine does not come to rest")
    }

    private mutating func execute() {
        let effects = machine.takeEffects()
        if effects.count > 4_096 { note("\(effects.count) effects at once") }
        for effect in effects {
            switch effect {
            case .submit(let write): submit(write)
            case .readPosition: wantsPosition = true
            case .findKeys(let part): asked = part
            case .planChanged: break
            case .log: notices += 1
            case .connection(.open(_, let number)):
                connection = number
                held = []
                machine.transport(.opened, of: number, now: now)
            case .connection(.send(let text)): send(text)
            case .connection(.askForToken): machine.tokenFound(AuthRequest(token: "a.b.c"), now: now)
            case .connection(.close): connection = nil
            case .connection: break
            }
        }
    }

    private mutating func send(_ text: [UInt8]) {
        sent += 1
        guard case .request(let request)? = try? ClientMessageParser.parse(text) else { return }
        requests.append(request.number)
        switch request.action {
        case .put, .merge, .onDisconnectPut, .onDisconnectMerge: note("the follower sends a write")
        default: break
        }
    }

    private mutating func submit(_ write: FollowWrite) {
        submitted += 1
        if write.number != lastNumber + 1 { note("write \(write.number) follows \(lastNumber)") }
        lastNumber = write.number
        queue.append(write)
        guard case .changes(let changes) = write.content else { return }
        if changes.isEmpty { note("a write without changes") }
        for change in changes where !machine.plan.parts.contains(where: { $0.mayHold(change.path) }) {
            note("a change of \(change.path) is outside the parts")
        }
    }

    private mutating func check() {
        if machine.inFlight > machine.settings.maxInFlight + 1 { note("\(machine.inFlight) writes in flight") }
        if machine.inFlight != queue.count { note("\(queue.count) writes in flight count as \(machine.inFlight)") }
        if machine.plan.parts.count > FollowPlan.maxParts || machine.tags.count > FollowPlan.maxParts {
            note("\(machine.plan.parts.count) parts, \(machine.tags.count) tags")
        }
        if machine.listens.count + machine.differing.count > 4 * FollowPlan.maxParts {
            note("too much waits for the tree")
        }
    }

    private mutating func note(_ text: String) { fault = fault ?? text }
}

extension FollowPart {
    /// Whether a write for the part may change a path. A range whose parent is replaced by a leaf may write the parent.
    fileprivate func mayHold(_ changed: Path) -> Bool {
        isRange ? mayChange(changed) || changed == path : path.contains(changed)
    }
}
