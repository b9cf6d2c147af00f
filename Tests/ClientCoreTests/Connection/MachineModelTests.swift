import ClientCore
import TestSupport
import Testing
import Tree
import Wire

/// Runs random sequences of requests, answers, cuts and pauses against a server that keeps count: every write is
/// answered once and in order, transactions are never sent twice, no listen is lost, and nothing is sent before the
/// login.
@Suite struct MachineModelTests {
    @Test(arguments: 0..<60) func everythingIsAnsweredOnceAndInOrder(seed: UInt64) {
        var run = ModelRun(seed: seed)
        for _ in 0..<400 { run.step() }
        run.finish()
        run.check()
    }
}

private struct ModelRun {
    var random: SeededGenerator
    var harness: MachineHarness
    var server = ModelServer()
    var nextWrite: Int64 = 1
    var hashed: Set<Int64> = []
    var wanted: Set<ListenTarget> = []
    var answers: [Int64: [RequestOutcome]] = [:]
    var nextGet: UInt64 = 1
    var getAnswers: [UInt64: Int] = [:]
    var cancelled: Set<UInt64> = []

    init(seed: UInt64) {
        random = SeededGenerator(seed: seed)
        harness = MachineHarness({ $0.maxRequestsInFlight = 7 }, seed: seed)
        harness.token = .some(AuthRequest(token: "a.b.c"))
    }

    mutating func step() {
        switch random.below(14) {
        case 0: harness { $0.goOnline(now: $1) }
        case 1: if random.oneIn(4) { harness { $0.goOffline(now: $1) } }
        case 2, 3, 4: writeSomething()
        case 5: toggleListen()
        case 6: getSomething()
        case 7: harness.passTime(to: harness.now + Int64(random.below(20_000)))
        case 8: if random.oneIn(3) { harness.receive(.closed(.broken("cut"))) }
        case 9: if random.oneIn(8) { harness { $0.purgeWrites(now: $1) } }
        case 10: harness.receive(.progress(unfinished: 0))
        default: greetOrAnswer()
        }
        settle()
    }

    private mutating func writeSomething() {
        let id = nextWrite
        nextWrite += 1
        let isHashed = random.oneIn(4)
        if isHashed { hashed.insert(id) }
        harness { $0.write(write(id, "/w", .int(id)), hash: isHashed ? "h" : nil, now: $1) }
    }

    private mutating func toggleListen() {
        let number = random.below(5)
        let limit = random.below(3)
        let listened = spec("/l\(number)", limit == 0 ? Query() : Query(limit: .first(limit)))
        let tag = limit == 0 ? nil : ListenTag(rawValue: Int64(number * 10 + limit))
        let target = ListenTarget(
            path: listened.path, query: listened.loadsAllData ? nil : listened.query, tag: tag?.rawValue)
        if wanted.remove(target) != nil {
            harness { $0.unlisten(listened, tag: tag, now: $1) }
        } else {
            wanted.insert(target)
            harness { $0.listen(listened, tag: tag, now: $1) }
        }
    }

    private mutating func getSomething() {
        let id = nextGet
        nextGet += 1
        harness { $0.get(RequestID(rawValue: id), spec("/g"), now: $1) }
        if random.oneIn(4) {
            settle()
            if getAnswers[id] == nil { cancelled.insert(id) }
            harness { $0.cancelGet(RequestID(rawValue: id), now: $1) }
        }
    }

    private mutating func greetOrAnswer() {
        if !harness.machine.isConnected, harness.machine.deadline != nil, harness.opened.count > 0 {
            greet()
        } else if !server.waiting.isEmpty {
            answer()
        }
    }

    private mutating func greet() {
        server.connectionBegins()
        harness.greet()
    }

    private mutating func answer() {
        let request = server.waiting.removeFirst()
        switch request.action {
        case .authenticate:
            if random.oneIn(6) {
                harness.answer(request.number, "invalid_token")
            } else {
                server.isLoggedIn = true
                harness.answer(request.number, "ok", "{\"auth\":{},\"expires\":null}")
            }
        case .listen(let target, _, _, _):
            // Refused listens are no longer wanted: the machine reports them.
            if random.oneIn(10), server.listens.contains(target) {
                server.listens.remove(target)
                harness.answer(request.number, "permission_denied")
            } else {
                harness.answer(request.number, "ok", "{}")
            }
        case .put: harness.answer(request.number, random.pick(["ok", "ok", "ok", "datastale", "permission_denied"]))
        default: harness.answer(request.number)
        }
    }

    /// Delivers the sent requests to the server, and records the machine's reports.
    private mutating func settle() {
        server.take(harness.takeRequests(), connection: harness.number.rawValue)
        for report in harness.takeReports() {
            switch report {
            case .writeAnswered(let id, let outcome, _): answers[id.rawValue, default: []].append(outcome)
            case .getAnswered(let id, _): getAnswers[id.rawValue, default: 0] += 1
            case .listenRefused(let spec, let tag, _):
                wanted.remove(
                    ListenTarget(
                        path: spec.path, query: spec.loadsAllData ? nil : spec.query, tag: tag?.rawValue))
            default: break
            }
        }
    }

    /// Goes online and lets the server answer everything.
    mutating func finish() {
        for _ in 0..<10_000 {
            harness { $0.goOnline(now: $1) }
            settle()
            if !harness.machine.isConnected { greet() }
            settle()
            guard !server.waiting.isEmpty else { break }
            answer()
            settle()
        }
    }

    func check() {
        #expect(harness.machine.isConnected)
        #expect(server.early == 0)
        #expect(server.listens == wanted)
        for id in 1..<nextWrite {
            #expect(answers[id]?.count == 1, "write \(id) is answered \(answers[id]?.count ?? 0) times")
            let times = server.received.count { $0.id == id }
            if hashed.contains(id) { #expect(times <= 1, "transaction \(id) came \(times) times") }
            if case .done? = answers[id]?.first { #expect(times >= 1) }
            if case .lost? = answers[id]?.first { #expect(hashed.contains(id) && times == 1) }
        }
        for id in 1..<nextGet where !cancelled.contains(id) { #expect(getAnswers[id] == 1) }
        for id in cancelled { #expect(getAnswers[id] == nil) }
        // On each connection the writes arrive in the order in which they were made.
        for (one, next) in zip(server.received, server.received.dropFirst()) where one.connection == next.connection {
            #expect(one.id < next.id)
        }
    }
}
