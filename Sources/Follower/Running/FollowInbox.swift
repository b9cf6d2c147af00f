import ClientCore
import Runtime
import Tree
import Wire

/// The events for a follower's thread, from all other threads.
final class FollowInbox: Sendable {
    /// The result of a request to the upstream or to the database.
    enum Result: Sendable {
        case token(UpstreamCredential?)
        case tokenFailed(String)
        case rules([UInt8])
        case rulesFailed(String)
        case keys(FollowPart, [Key])
        case keysFailed(FollowPart, String)
        case estimate(Int64?)
        case root(Swift.Result<FollowedState, FollowTargetError>)
        /// The namespace's state, to compare its rules with the upstream's.
        case stateForRules(Swift.Result<FollowedState, FollowTargetError>)
        case position(Int64)
        case received(Int64)
    }

    struct Content: Sendable {
        var events: [(event: TransportEvent, number: ConnectionNumber)] = []
        var outcomes: [(number: Int64, outcome: FollowOutcome)] = []
        var results: [Result] = []
        var isStopping = false

        var isEmpty: Bool { events.isEmpty && outcomes.isEmpty && results.isEmpty && !isStopping }
    }

    private let state = Condition(Content())

    func received(_ event: TransportEvent, _ number: ConnectionNumber) {
        state.signal { $0.events.append((event, number)) }
    }

    func answered(_ number: Int64, _ outcome: FollowOutcome) {
        state.signal { $0.outcomes.append((number, outcome)) }
    }

    func add(_ result: Result) { state.signal { $0.results.append(result) } }

    func stop() { state.signal { $0.isStopping = true } }

    /// Waits for content, at most until a time, and takes it.
    ///
    /// - Parameters:
    ///   - milliseconds: nil for no limit.
    ///   - withEvents: whether events of the transport end the wait, and are taken.
    func take(milliseconds: Milliseconds?, withEvents: Bool) -> Content {
        let taken = state.wait(milliseconds: milliseconds) { content -> Content? in
            guard
                content.isStopping || !content.outcomes.isEmpty || !content.results.isEmpty
                    || (withEvents && !content.events.isEmpty)
            else { return nil }
            var taken = content
            if withEvents { content.events = [] } else { taken.events = [] }
            content.outcomes = []
            content.results = []
            return taken
        }
        return taken ?? Content()
    }
}
