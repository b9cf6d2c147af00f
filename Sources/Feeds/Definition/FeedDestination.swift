/// Where a feed's messages go by themselves.
public enum FeedDestination: Sendable, Equatable {
}
