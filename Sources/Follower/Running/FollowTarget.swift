public import Tree

/// The namespace that a follower writes to. Implemented by the program with an engine. Any thread.
public protocol FollowTarget: AnyObject, Sendable {
    /// Queues a write after those submitted before. The completion is called once, on another thread.
    ///
    /// - Parameter fence: the claim under which the write is committed.
    func submit(
        _ write: FollowWrite, fence: [UInt8], _ completion: @escaping @Sendable (FollowOutcome) -> Void)

    /// Calls back, on another thread, with the state after everything that was committed before the call, or with the
    /// reason why it is unknown.
    func withState(_ completion: @escaping @Sendable (Result<FollowedState, FollowTargetError>) -> Void)

    /// Returns the reason why a rules document can't be evaluated here; nil if it can.
    func problem(ofRules source: [UInt8]) -> String?
}

/// The tree and the rules of a namespace.
public struct FollowedState: Sendable {
    public let root: Node
    /// The document of the namespace's own rules; nil if the gateway's default rules apply.
    public let rules: [UInt8]?

    public init(root: Node, rules: [UInt8]?) {
        self.root = root
        self.rules = rules
    }
}

/// The reason why a namespace's tree is not available at the moment.
public struct FollowTargetError: Error, Equatable, Sendable {
    public let reason: String

    public init(_ reason: String) { self.reason = reason }
}
