/// The number of an upstream message, which a namespace's follower gives to the write of the message.
///
/// The log contains the messages of a fence in order, each once and none without those before it. After a message
/// whose write was refused or failed, those of the same fence fail with `EngineError.superseded`: the follower either
/// submits them again from the stored position on, or claims another fence.
public struct UpstreamMark: Sendable, Hashable {
    /// The 16 bytes with which the follower has claimed the namespace.
    public let fence: [UInt8]
    /// Counts from 1 under each fence, without gaps.
    public let number: Int64

    public init(fence: [UInt8], number: Int64) {
        self.fence = fence
        self.number = number
    }
}
