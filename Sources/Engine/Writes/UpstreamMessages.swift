import LogStore

/// The upstream messages in a batch, and what the namespace follows. A value.
///
/// The accepted messages have one fence and contiguous numbers. The database checks that they continue the committed
/// ones.
struct UpstreamMessages: Sendable, Equatable {
    let following: Following
    /// Fences under which nothing can be committed any more.
    let superseded: Set<[UInt8]>
    private(set) var accepted: FollowPass.Messages?
    private var hasRefused = false

    init(following: Following = .nothing, superseded: Set<[UInt8]> = []) {
        self.following = following
        self.superseded = superseded
    }

    /// Whether a message can be committed after the accepted ones.
    func isNext(_ mark: UpstreamMark) -> Bool {
        if hasRefused || (!superseded.isEmpty && superseded.contains(mark.fence)) { return false }
        guard let accepted else { return true }
        return accepted.upto + 1 == mark.number && accepted.fence == mark.fence
    }

    /// Records that a message becomes an entry of the batch.
    mutating func accept(_ mark: UpstreamMark) {
        accepted = FollowPass.Messages(
            fence: mark.fence, after: accepted?.after ?? mark.number - 1, upto: mark.number)
    }

    /// Records that a message was refused, so that none after it can be committed.
    mutating func refuse(_ mark: UpstreamMark) { hasRefused = true }
}
