import ClientCore
import Runtime
import Tree
import Wire

/// A realtime connection to an upstream for checks by commands. Blocks its thread, sends read actions only, and does not
/// reconnect.
final class UpstreamSession {
    /// The upstream's answer to a listen.
    struct Answer {
        /// The value of the part: the given tree with everything that the upstream sent.
        let value: Node
        /// The number of bytes that the upstream sent for the listen, and that the listen had.
        let receivedBytes: Int64
        let sentBytes: Int64
        /// Whether the upstream sent no data, because the hashes were equal.
        let isEqual: Bool
    }

    private static let mostBytes: Int64 = 1 << 30
    private let address: UpstreamAddress
    private var tokens: TokenSource
    private let transport: any RealtimeTransport
    private let check: () throws -> Void
    private let inbox = FollowInbox()
    private var machine: ConnectionMachine
    private var channel: (any RealtimeChannel)?
    private var reports: [ConnectionReport] = []
    private var request: ListenRequest?
    private(set) var receivedBytes: Int64 = 0
    private(set) var sentBytes: Int64 = 0
    private var failure: FollowError?
    /// The end of the credential in seconds since 1970, if the upstream has reported it.
    private(set) var expires: Int64?
    private(set) var isClosed = false
    private var isAnonymous = false

    /// - Parameter check: throws if the command was interrupted. Called at least once a second.
    init(
        _ address: UpstreamAddress, _ tokens: TokenSource, _ transport: any RealtimeTransport, renews: Bool = true,
        check: @escaping () throws -> Void
    ) {
        self.address = address
        self.tokens = tokens
        self.transport = transport
        self.check = check
        var settings = FollowSettings(address, FollowTimes()).connection
        if !renews {
            settings.renewalMargin = Int64.min / 2
            settings.shortTokenLife = 0
        }
        machine = ConnectionMachine(settings, seed: UInt64.random(in: 0...UInt64.max))
    }

    deinit { channel?.close() }

    /// Connects and signs in.
    func open() throws {
        machine.goOnline(now: Clock.monotonicMilliseconds)
        try wait("the login", milliseconds: 60_000) { report in
            switch report {
            case .signedIn(let answer):
                self.expires = answer?.expires
                return true
            case .signedOut: return true
            // Without a credential there is no login.
            case .connected: return self.isAnonymous
            default: return false
            }
        }
    }

    /// Listens at a part, with the hashes of a tree, until the upstream has answered. The listen stays.
    func listen(_ part: FollowPart, from root: Node, tag: Int64 = 1, milliseconds: Milliseconds = 600_000) throws
        -> Answer
    {
        let (received, sent) = (receivedBytes, sentBytes)
        let view = part.view(of: root)
        var value = view
        var isEqual = true
        machine.listen(part.spec, tag: part.isTagged ? ListenTag(rawValue: tag) : nil, now: Clock.monotonicMilliseconds)
        hashes = (view.hash, part.isRange ? nil : CompoundHash(ofLarge: view))
        try wait("the data of \(part)", milliseconds: milliseconds) { report in
            switch report {
            case .listenCompleted: return true
            case .listenRefused(_, _, let failure):
                throw FollowError.listenRefused(part: part.description, failure.text)
            default:
                if part.apply(report, to: &value) { isEqual = false }
                return false
            }
        }
        return Answer(
            value: value, receivedBytes: receivedBytes - received, sentBytes: sentBytes - sent, isEqual: isEqual)
    }

    private var hashes: (String, CompoundHash?) = ("", nil)

    /// Handles what arrives, for some time at most. Returns the reports.
    func pump(milliseconds: Milliseconds) throws -> [ConnectionReport] {
        var seen: [ConnectionReport] = []
        let deadline = Clock.monotonicMilliseconds + milliseconds
        repeat {
            try step(until: deadline)
            seen += reports
            reports = []
        } while Clock.monotonicMilliseconds < deadline && seen.isEmpty && !isClosed
        return seen
    }

    private func wait(
        _ what: String, milliseconds: Milliseconds, _ isDone: (ConnectionReport) throws -> Bool
    ) throws {
        let deadline = Clock.monotonicMilliseconds + milliseconds
        while true {
            while !reports.isEmpty {
                let report = reports.removeFirst()
                if try isDone(report) { return }
            }
            if let failure { throw failure }
            guard Clock.monotonicMilliseconds < deadline else {
                throw FollowError.unreachable("the upstream did not send \(what) within \(milliseconds / 1_000) s")
            }
            try step(until: deadline)
        }
    }

    private func step(until deadline: Milliseconds) throws {
        try check()
        drain()
        guard reports.isEmpty, failure == nil else { return }
        let now = Clock.monotonicMilliseconds
        let next = min(deadline, machine.deadline ?? .max, now + 1_000)
        let content = inbox.take(milliseconds: max(0, next - now), withEvents: true)
        for (event, number) in content.events {
            if case .received(let text) = event { receivedBytes += Int64(text.count) }
            guard receivedBytes < Self.mostBytes else {
                throw FollowError.unexpected(
                    "more than 1 GiB, although an upstream sends 256 MB at most for one listen")
            }
            machine.transport(event, of: number, now: Clock.monotonicMilliseconds)
            if case .received(let text) = event { channel?.processed(text.count) }
            drain()
        }
        machine.timePassed(now: Clock.monotonicMilliseconds)
        drain()
    }

    private func drain() {
        for effect in machine.takeEffects() {
            switch effect {
            case .open(let address, let number):
                channel = transport.connect(to: address) { [inbox] event in inbox.received(event, number) }
            case .send(let text): send(text)
            case .sendListen(let request):
                for text in request.messages(hash: hashes.0, compound: hashes.1) { send(text) }
            case .close:
                channel?.close()
                channel = nil
            case .askForToken(let isForced): provideToken(isForced)
            case .askForAppCheckToken: break
            case .report(let report): note(report)
            }
        }
    }

    private func send(_ text: [UInt8]) {
        sentBytes += Int64(text.count)
        channel?.send(text)
    }

    private func provideToken(_ isForced: Bool) {
        let now = Clock.monotonicMilliseconds
        do throws(FollowError) {
            let credential = try tokens.credential(isForced: isForced)
            isAnonymous = credential == nil
            machine.tokenProvided(credential.map { AuthRequest($0) }, now: now)
        } catch {
            failure = error
            machine.tokenFailed(reason: "\(error)", now: now)
        }
    }

    private func note(_ report: ConnectionReport) {
        switch report {
        case .connectFailed(let reason, _), .disconnected(let reason):
            isClosed = true
            if failure == nil { failure = .unreachable(reason) }
        case .signInFailed(let refused, _): failure = .credentialRefused(refused.text)
        case .shutDown(let reason): failure = .unreachable("the upstream shut the database down: \(reason)")
        default: break
        }
        reports.append(report)
    }
}

extension FollowPart {
    /// Applies data of the part's listen to its value. Returns whether the report is data.
    func apply(_ report: ConnectionReport, to value: inout Node) -> Bool {
        switch report {
        case .changed(.put(let changed, let node), _, _):
            if isRange, changed == path {
                value = node
            } else {
                value = value.replacing(changed.dropFirst(path.depth), with: node)
            }
        case .changed(.patch(let base, let changes), _, _):
            value = value.replacing(
                changes.map { Change(path: base.appending($0.path).dropFirst(path.depth), value: $0.value) })
        case .ranges(_, let merges, _, _): value = RangeMerge.apply(merges, to: value)
        default: return false
        }
        return true
    }
}
