/// How many namespaces a committer takes into one transaction. A value.
///
/// Where such transactions come to nothing (other gateways write to the same namespaces, somebody holds locks), fewer namespaces
/// have something to lose by the next one.
struct JointSize: Equatable, Sendable {
    private let most: Int
    /// How many it takes next; 1: each goes alone.
    private(set) var next: Int

    /// - Parameter most: how many it ever takes.
    init(most: Int) {
        self.most = max(1, most)
        next = self.most
    }

    /// One has come to nothing.
    mutating func failed() { next = max(1, next / 2) }

    /// One was committed, or a batch alone where others waited.
    mutating func committed() { next = min(most, next + max(1, next / 4)) }
}
