import LogStore
import Runtime

/// The thread that delivers messages: it runs all feeds of this gateway and handles one command after the other. Any
/// thread may post commands.
final class FeedDispatcher: Sendable {
    private struct Inbox: Sendable {
        var commands: [FeedCommand] = []
        var stops = false
    }

    private let core: FeedCore
    private let troubles: FeedFailures
    private let inbox = Condition(Inbox())
    let board = FeedStatuses()

    /// - Parameter troubles: Collects the feeds that cannot continue.
    init(_ core: FeedCore, _ troubles: FeedFailures) {
        self.core = core
        self.troubles = troubles
    }

    func post(_ command: FeedCommand) { inbox.signal { $0.commands.append(command) } }

    func found(_ findings: [FoundMessages]) {
        if !findings.isEmpty { post(.found(findings)) }
    }

    func stop() { inbox.broadcast { $0.stops = true } }

    /// Runs until `stop`, and then records the progress of all feeds.
    ///
    /// - Parameter look: Called at least once a second with the time in monotonic milliseconds, to check the
    ///   deadlines of other components.
    func run(_ readers: FeedReaders, _ writer: FeedWriter, _ look: (Milliseconds) -> Void) {
        let state = FeedDispatcherState(core, readers, writer, board, troubles) { [weak self] in self?.post($0) }
        while true {
            let pause = state.millisecondsToNext(Clock.monotonicMilliseconds)
            let (commands, stops) =
                inbox.wait(milliseconds: pause) { inbox -> ([FeedCommand], Bool)? in
                    guard !inbox.commands.isEmpty || inbox.stops else { return nil }
                    defer { inbox.commands = [] }
                    return (inbox.commands, inbox.stops)
                } ?? ([], false)
            state.handle(commands)
            look(Clock.monotonicMilliseconds)
            if stops { break }
        }
        state.end()
    }
}

/// A command to the dispatcher.
enum FeedCommand: Sendable {
    case begin(FeedRunStart)
    case end(FeedClaim)
    case endAll
    /// The feed was moved or has another definition. Runs with an older generation end.
    case moved(FeedName, feed: Int64, generation: Int64)
    case found([FoundMessages])
    case routes([FeedName: FeedRoute])
    /// A page of retries.
    case failedMessages(FeedClaim, FeedRetryPage)
    case pull(FeedPull, @Sendable (Result<[FeedDelivery], FeedRefusalError>) -> Void)
    case cancel(FeedName, pull: UInt64)
    /// Reports deliveries that did not reach their connection.
    case unsent(FeedName, [(position: FeedPosition, delivery: UInt64)])
    /// Puts back messages because a connection ended, or because a consumer returns all messages it holds.
    case release(FeedName, consumer: String, FeedOpening?, FeedAccess)
    case settle(
        FeedName, [FeedPosition?], consumer: String?, FeedSettlement, FeedAccess,
        @Sendable (Result<[String], FeedRefusalError>) -> Void)
    case committed([(FeedClaim, FeedCommit)], lost: Set<FeedClaim>)
    case delivered(FeedClaim, [FeedPosition], [SinkOutcome])
    case report(FeedName, FeedAccess, @Sendable (FeedReport?, FeedRefusal?) -> Void)
}

/// A refusal as an error.
public struct FeedRefusalError: Error, Sendable, Equatable {
    public let refusal: FeedRefusal
    public init(_ refusal: FeedRefusal) { self.refusal = refusal }
}

/// The gateway that runs a feed.
enum FeedRoute: Sendable, Equatable {
    case here
    case elsewhere(FeedPeer)
    case unowned
}

/// A feed that this gateway starts to run.
struct FeedRunStart: Sendable {
    let name: FeedName
    let uid: String
    /// The time at which the feed was created, in seconds since 1970.
    let createdAt: Int64
    let claim: FeedClaim
    let definition: FeedDefinition
    let settings: FeedMachine.Settings
    let progress: FeedProgress
    /// The last entry of which a previous owner may have delivered messages, and the time until which these messages count as held.
    let adoptedThrough: Int64
    let adoptedUntil: Int64
    let window: FeedWindow
    let sink: (any Sink)?
    /// The first page of retries.
    let retried: FeedRetryPage
}
