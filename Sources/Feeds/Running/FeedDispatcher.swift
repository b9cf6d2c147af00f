import LogStore
import Runtime

/// The thread that hands out messages: all feeds that this gateway works, one command after the other. Any thread may tell it
/// something.
final class FeedDispatcher: Sendable {
    private struct Inbox: Sendable {
        var commands: [FeedCommand] = []
        var stops = false
    }

    private let core: FeedCore
    private let troubles: FeedTroubles
    private let inbox = Condition(Inbox())
    let board = FeedBoard()

    /// - Parameter troubles: is told of feeds that can't be worked on.
    init(_ core: FeedCore, _ troubles: FeedTroubles) {
        self.core = core
        self.troubles = troubles
    }

    func post(_ command: FeedCommand) { inbox.signal { $0.commands.append(command) } }

    func found(_ findings: [LaneFinding]) {
        if !findings.isEmpty { post(.found(findings)) }
    }

    func stop() { inbox.broadcast { $0.stops = true } }

    /// Runs until `stop`; then what was done is written down.
    ///
    /// - Parameter look: Called at least once a second with the monotonic milliseconds, for others' deadlines.
    func run(_ readers: FeedReaders, _ writer: FeedWriter, _ look: (Milliseconds) -> Void) {
        let desk = FeedDesk(core, readers, writer, board, troubles) { [weak self] in self?.post($0) }
        while true {
            let pause = desk.millisecondsToNext(Clock.monotonicMilliseconds)
            let (commands, stops) =
                inbox.wait(milliseconds: pause) { inbox -> ([FeedCommand], Bool)? in
                    guard !inbox.commands.isEmpty || inbox.stops else { return nil }
                    defer { inbox.commands = [] }
                    return (inbox.commands, inbox.stops)
                } ?? ([], false)
            desk.handle(commands)
            look(Clock.monotonicMilliseconds)
            if stops { break }
        }
        desk.end()
    }
}

/// What the dispatcher is told and asked.
enum FeedCommand: Sendable {
    case begin(FeedRunStart)
    case end(FeedClaim)
    case endAll
    /// The feed was put elsewhere, or has another definition: whatever has an older generation is over.
    case moved(FeedName, feed: Int64, generation: Int64)
    case found([LaneFinding])
    case routes([FeedName: FeedRoute])
    /// Letters to be delivered once more.
    case letters(FeedClaim, FeedRetryPage)
    case pull(FeedPull, @Sendable (Result<[FeedDelivery], FeedRefusalError>) -> Void)
    case cancel(FeedName, pull: UInt64)
    /// Deliveries that did not reach their connection.
    case unsent(FeedName, [(position: FeedPosition, delivery: UInt64)])
    /// A connection ended, or a consumer gives back all that it holds: that goes back.
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

/// Where a feed is worked.
enum FeedRoute: Sendable, Equatable {
    case here
    case elsewhere(FeedPeer)
    case nobody
}

/// A feed that this gateway works from now on.
struct FeedRunStart: Sendable {
    let name: FeedName
    let uid: String
    /// Seconds since 1970.
    let createdAt: Int64
    let claim: FeedClaim
    let definition: FeedDefinition
    let settings: FeedMachine.Settings
    let progress: FeedProgress
    /// A former owner may have handed out messages of entries up to this one: they count as held until then.
    let adoptedThrough: Int64
    let adoptedUntil: Int64
    let window: FeedWindow
    let sink: (any Sink)?
    /// The first page of what is to be delivered once more.
    let retried: FeedRetryPage
}
