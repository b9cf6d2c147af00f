import Runtime
import Tree

/// Requests of one follower that block: tokens, rules, keys and estimates, on one thread. A token endpoint that does not answer
/// delays nothing else of the follower.
final class FollowRequests: Sendable {
    enum Job: Sendable, Equatable {
        case token(isForced: Bool)
        case keys(FollowPart)
        case estimate
    }

    private struct State: Sendable {
        var jobs: [Job] = []
        /// Whether the rules are read at intervals.
        var polls = true
        var isStopping = false
    }

    private let state = Condition(State())
    private let requests: UpstreamRequests
    private let setup: FollowSetup
    private let inbox: FollowInbox

    init(_ setup: FollowSetup, _ inbox: FollowInbox) {
        self.setup = setup
        self.inbox = inbox
        requests = UpstreamRequests(setup.tools.client)
    }

    func add(_ job: Job) { state.signal { if !$0.jobs.contains(job) { $0.jobs.append(job) } } }

    /// Stops or continues reading the rules at intervals.
    func setPolling(_ polls: Bool) { state.signal { $0.polls = polls } }

    func stop() {
        state.signal { $0.isStopping = true }
        requests.cancel()
    }

    /// Executes jobs until `stop`, and reads the rules at the start and at intervals.
    func run() {
        var tokens = TokenSource(setup.credentials, requests, readFile: setup.tools.readFile)
        var nextRules = Clock.monotonicMilliseconds
        while true {
            let left = setup.keepsRules ? nil : max(0, nextRules - Clock.monotonicMilliseconds)
            let job = state.wait(milliseconds: left) { state -> Job?? in
                if state.isStopping { return .some(nil) }
                return state.jobs.isEmpty ? nil : .some(state.jobs.removeFirst())
            }
            switch job {
            case .some(.some(let job)): execute(job, &tokens)
            case .some(nil): return
            case nil:
                let pause = setup.tools.times.rulesPoll
                let isRead = !state.withLock { $0.polls } || readRules(&tokens)
                nextRules = Clock.monotonicMilliseconds + (isRead ? pause : min(pause, 30_000))
            }
        }
    }

    private func execute(_ job: Job, _ tokens: inout TokenSource) {
        var rest = UpstreamREST(setup.upstream, requests)
        switch job {
        case .token(let isForced):
            do {
                inbox.add(.token(try tokens.credential(isForced: isForced)))
            } catch {
                inbox.add(.tokenFailed("\(error)"))
            }
        case .keys(let part):
            do {
                let credential = try tokens.credential(isForced: false)
                inbox.add(.keys(part, try rest.childKeys(part.path, most: nil, credential).keys))
            } catch {
                inbox.add(.keysFailed(part, "\(error)"))
            }
        case .estimate:
            var walk = ShallowEstimate(rest)
            inbox.add(.estimate((try? tokens.credential(isForced: false)).flatMap { try? walk.bytes($0) }))
            rest = walk.rest
        }
        inbox.add(.received(rest.receivedBytes))
    }

    /// Returns whether the upstream answered.
    private func readRules(_ tokens: inout TokenSource) -> Bool {
        var rest = UpstreamREST(setup.upstream, requests)
        defer { inbox.add(.received(rest.receivedBytes)) }
        do {
            inbox.add(.rules(try rest.rules(try tokens.credential(isForced: false))))
            return true
        } catch {
            inbox.add(.rulesFailed("\(error)"))
            return false
        }
    }
}
