/// What the metrics and the readiness tell of a mirror.
public struct MirrorFacts: Sendable {
    public let namespace: String
    public let name: String
    /// running, paused, broken, building, or elsewhere: run by another gateway.
    public let state: String
    public let lagEntries: Int64
    public let lagMilliseconds: Int64
    /// Why it is broken.
    public let message: String?

    public init(
        namespace: String, name: String, state: String, lagEntries: Int64, lagMilliseconds: Int64, message: String?
    ) {
        self.namespace = namespace
        self.name = name
        self.state = state
        self.lagEntries = lagEntries
        self.lagMilliseconds = lagMilliseconds
        self.message = message
    }
}
