internal import Tree

/// A transaction as an app asks for it.
// Safe: the completion, which need not be Sendable, runs once, on the database's callback queue.
struct TransactionRequest: @unchecked Sendable {
    let ref: DatabaseReference
    let block: @Sendable (MutableData) -> TransactionResult
    /// Whether listeners see the result before the server has confirmed it.
    let isLocal: Bool
    private let completion: (((any Error)?, Bool, DataSnapshot?) -> Void)?

    init(
        ref: DatabaseReference, block: @escaping @Sendable (MutableData) -> TransactionResult, isLocal: Bool,
        completion: (((any Error)?, Bool, DataSnapshot?) -> Void)?
    ) {
        self.ref = ref
        self.block = block
        self.isLocal = isLocal
        self.completion = completion
    }

    /// What the block makes of a value; nil where it changes nothing.
    func result(of node: Node) throws(InvalidArgument) -> Node? {
        let result = block(MutableData(MutableData.Whole(node, at: ref.path)))
        guard let data = result.data else { return nil }
        if let error = data.whole.error { throw error }
        return data.whole.node
    }

    /// Whether somebody is told how it ends.
    var wantsErrors: Bool { completion != nil }

    /// On the callback queue.
    func tell(_ error: (any Error)?, isCommitted: Bool, _ node: Node?, seq: Int64? = nil) {
        completion?(error, isCommitted, node.map { DataSnapshot(ref: ref, node: $0, index: .priority, seq: seq) })
    }
}
