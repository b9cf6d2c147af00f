/// The number of an upstream message, which a namespace's follower gives to the write of the message.
///
/// The log contains the messages of a fence in order, each once and none without those before it. If a write is refused or
/// fails, all later writes under its fence fail with `EngineError.superseded`. The follower then reads the stored position
/// and submits the later messages again, or claims another fence.
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
