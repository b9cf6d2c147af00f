import ClientCore
import Testing
import Tree
import Wire

/// Drives a machine by hand: executes its requests, and records its messages and reports.
struct MachineHarness {
    var machine: ConnectionMachine
    var now: Int64 = 1_000
    var opened: [(address: RealtimeAddress, number: ConnectionNumber)] = []
    /// Whole messages and keep-alives, in order.
    var sent: [[UInt8]] = []
    var closes: [String] = []
    var tokenQuestions: [Bool] = []
    var appCheckQuestions = 0
    var reports: [ConnectionReport] = []
    /// The hash that the harness returns for the known data of a listen.
    var hash = ""
    var compound: CompoundHash?
    /// The log position after which a listen may resume, or nil.
    var after: String?
    /// The token that the harness returns. Nil leaves the request unanswered.
    var token: AuthRequest?? = .some(nil)
    private var assembler = SegmentAssembler(maxBytes: 1 << 30)

    init(_ change: (inout ConnectionSettings) -> Void = { _ in }, seed: UInt64 = 1) {
        var settings = ConnectionSettings(host: "db.example", port: 443, isSecure: true, namespace: "demo")
        change(&settings)
        machine = ConnectionMachine(settings, seed: seed)
    }

    mutating func callAsFunction(_ body: (inout ConnectionMachine, Int64) -> Void) {
        body(&machine, now)
        carryOut()
    }

    mutating func carryOut() {
        while true {
            let effects = machine.takeEffects()
            if effects.isEmpty { return }
            for effect in effects { carryOut(effect) }
        }
    }

    private mutating func carryOut(_ effect: ConnectionEffect) {
        switch effect {
        case .open(let address, let number):
            opened.append((address, number))
            assembler = SegmentAssembler(maxBytes: 1 << 30)
        case .send(let text): take(text)
        case .sendListen(let request):
            if request.mayResume, let after {
                for text in request.messages(hash: "", after: after) { take(text) }
            } else {
                for text in request.messages(hash: hash, compound: compound) { take(text) }
            }
        case .close(let reason): closes.append(reason)
        case .askForToken(let isForced):
            tokenQuestions.append(isForced)
            if let token { machine.tokenProvided(token, now: now) }
        case .askForAppCheckToken: appCheckQuestions += 1
        case .report(let report): reports.append(report)
        }
    }

    private mutating func take(_ text: [UInt8]) {
        if text == ClientMessage.keepAlive { return sent.append(text) }
        if case .message(let message) = assembler.take(text) { sent.append(message) }
    }

    // MARK: The server's side

    var number: ConnectionNumber { opened.last?.number ?? ConnectionNumber(rawValue: 0) }

    mutating func receive(_ event: TransportEvent) {
        let number = number
        self { $0.transport(event, of: number, now: $1) }
    }

    mutating func receive(_ message: ServerMessage) { receive(.received(message.text)) }

    mutating func receive(_ text: String) { receive(.received(Array(text.utf8))) }

    mutating func greet(time: Int64 = 1_700_000_000_000, session: String = "s1", isExtended: Bool = false) {
        receive(.opened)
        receive(
            .control(.hello(ServerHello(timestamp: time, host: "db.example", session: session, isExtended: isExtended)))
        )
    }

    mutating func answer(_ number: Int64, _ status: String = "ok", _ detail: String = "\"\"") {
        receive("{\"t\":\"d\",\"d\":{\"r\":\(number),\"b\":{\"s\":\"\(status)\",\"d\":\(detail)}}}")
    }

    /// Lets time pass until `end`, and runs the machine at each of its deadlines.
    mutating func passTime(to end: Int64) {
        while let deadline = machine.deadline, deadline <= end {
            now = max(now, deadline)
            self { $0.timePassed(now: $1) }
        }
        now = max(now, end)
    }

    /// Lets time pass until a condition holds.
    mutating func passTo(_ condition: (MachineHarness) -> Bool) {
        while !condition(self), let deadline = machine.deadline {
            now = max(now, deadline)
            self { $0.timePassed(now: $1) }
        }
    }

    /// The requests sent since the last call.
    mutating func takeRequests() -> [ClientRequest] {
        defer { sent = [] }
        return sent.compactMap { text in
            guard case .request(let request)? = try? ClientMessageParser.parse(text) else { return nil }
            return request
        }
    }

    mutating func takeReports() -> [ConnectionReport] {
        defer { reports = [] }
        return reports
    }

    mutating func takeTexts() -> [String] {
        defer { sent = [] }
        return sent.map { String(decoding: $0, as: UTF8.self) }
    }

    /// Connects and greets without a login.
    mutating func connect() {
        self { $0.goOnline(now: $1) }
        greet()
        _ = takeReports()
        _ = takeRequests()
    }
}

func write(_ id: Int64, _ path: String = "/a", _ node: Node = .int(1)) -> PendingWrite {
    PendingWrite(id: WriteID(rawValue: id), path: Path(splitting: path), content: .overwrite(node))
}

func spec(_ path: String, _ query: Query = Query()) -> QuerySpec {
    QuerySpec(path: Path(splitting: path), query: query)
}
