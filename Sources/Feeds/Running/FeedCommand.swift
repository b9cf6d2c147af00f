import LogStore

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
