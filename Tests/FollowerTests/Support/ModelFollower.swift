import ClientCore
import TestSupport
import Tree
import Wire

@testable import Follower

/// A follower between a `ModelUpstream` and a namespace that is a value: executes the machine's effects in any order that
/// real threads could have.
struct ModelFollower {
    struct Committed: Equatable {
        let operation: Tree.Operation
        let changes: [Change]
    }

    var machine: FollowMachine
    var upstream: ModelUpstream
    /// The namespace.
    private(set) var root = Node.null
    private(set) var log: [Committed] = []
    private(set) var position: Int64 = 0
    private var queue: [FollowWrite] = []
    private var connection: ConnectionNumber?
    private var isOpen = false
    private var asksForPosition = false
    private(set) var asked: FollowPart?
    private(set) var now: Int64 = 0
    private(set) var notices: [FollowNotice] = []
    private(set) var violations = 0

    init(_ upstream: ModelUpstream, _ settings: FollowSettings = ModelFollower.settings, root: Node = .null) {
        self.upstream = upstream
        self.root = root
        machine = FollowMachine(settings, seed: 1)
        machine.start(now: 0)
        execute()
    }

    static var settings: FollowSettings {
        var connection = ConnectionSettings(host: "upstream.test", port: 443, isSecure: true, namespace: "model")
        connection.asksForExtension = false
        return FollowSettings(connection)
    }

    /// Whether nothing happens any more without an outside event.
    var isQuiet: Bool {
        upstream.outgoing.isEmpty && queue.isEmpty && !asksForPosition && asked == nil
            && !(machine.wantsRoot && machine.inFlight == 0) && isOpen
    }

    // MARK: Steps

    /// Delivers one message of the upstream, if the machine takes it. Returns whether it did.
    @discardableResult mutating func deliver() -> Bool {
        guard isOpen, let connection, !machine.isBlocked, let text = upstream.takeOutgoing() else { return false }
        machine.transport(.received(text), of: connection, now: now)
        execute()
        return true
    }

    /// Commits up to so many submitted writes, or answers what else waits.
    mutating func commit(atMost count: Int) {
        for _ in 0..<count {
            guard !queue.isEmpty else { break }
            let write = queue.removeFirst()
            // The database rejects a write that does not follow the position.
            guard write.number == position + 1 else {
                machine.answered(write.number, .failed("superseded"), now: now)
                continue
            }
            apply(write)
            machine.answered(write.number, .committed(seq: Int64(log.count)), now: now)
        }
        execute()
        answer()
    }

    /// Loses the answers of all submitted writes, some of which are committed.
    mutating func loseDatabase(committing count: Int) {
        for (index, write) in queue.enumerated() {
            if index < count, write.number == position + 1 { apply(write) }
            machine.answered(write.number, .failed("lost"), now: now)
        }
        queue = []
        execute()
    }

    /// Cuts the connection. Messages on the way are lost.
    mutating func cut() {
        guard isOpen, let connection, !machine.isBlocked else { return }
        isOpen = false
        upstream.connected()
        machine.transport(.closed(.broken("cut")), of: connection, now: now)
        execute()
        passTime()
    }

    mutating func passTime() {
        guard let deadline = machine.deadline else { return }
        now = max(now, deadline)
        machine.timePassed(now: now)
        execute()
    }

    /// Runs until nothing happens any more.
    mutating func settle() {
        for _ in 0..<100_000 {
            if isQuiet { return }
            if deliver() { continue }
            if !queue.isEmpty || asksForPosition || asked != nil || machine.wantsRoot {
                commit(atMost: 100)
            } else {
                passTime()
            }
        }
    }

    private mutating func apply(_ write: FollowWrite) {
        position = write.number
        guard case .changes(let changes) = write.content else { return }
        root = root.replacing(ApplicationOrder.sorted(changes))
        log.append(Committed(operation: write.operation, changes: changes))
    }

    private mutating func answer() {
        if asksForPosition, queue.isEmpty {
            asksForPosition = false
            machine.positionFound(position, now: now)
            execute()
        }
        if machine.wantsRoot, machine.inFlight == 0 {
            machine.rootFound(root, now: now)
            execute()
        }
        if let part = asked {
            asked = nil
            machine.keysFound(part, part.keys(in: upstream.tree), now: now)
            execute()
        }
    }

    private mutating func execute() {
        for effect in machine.takeEffects() {
            switch effect {
            case .submit(let write): queue.append(write)
            case .readPosition: asksForPosition = true
            case .findKeys(let part): asked = part
            case .planChanged: break
            case .log(let notice):
                notices.append(notice)
                if case .problem(.invalid) = notice { violations += 1 }
            case .connection(.open(_, let number)):
                connection = number
                isOpen = true
                upstream.connected()
                machine.transport(.opened, of: number, now: now)
            case .connection(.send(let text)): if isOpen { upstream.received(text) }
            case .connection(.close): isOpen = false
            case .connection(.askForToken): machine.tokenFound(AuthRequest(token: "secret"), now: now)
            case .connection: break
            }
        }
        if machine.hasEffects { execute() }
    }
}
