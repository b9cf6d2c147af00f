public import Tree

/// The namespace that a follower writes to. Implemented by the program with an engine. Any thread.
public protocol FollowTarget: AnyObject, Sendable {
    /// Queues a write after those submitted before. The completion is called once, on another thread.
    ///
    /// - Parameter fence: the claim under which the write is committed.
    func submit(
        _ write: FollowWrite, fence: [UInt8], _ completion: @escaping @Sendable (FollowOutcome) -> Void)

    /// Calls back, on another thread, with the tree after everything that was committed before the call, or with the
    /// reason why it is unknown.
    func withRoot(_ completion: @escaping @Sendable (Result<Node, FollowTargetError>) -> Void)

    /// Returns the reason why a rules document can't be evaluated here; nil if it can.
    func problem(ofRules source: [UInt8]) -> String?
}

/// The reason why a namespace's tree is not available at the moment.
public struct FollowTargetError: Error, Equatable, Sendable {
    public let reason: String

    public init(_ reason: String) { self.reason = reason }
}
