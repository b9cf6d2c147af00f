internal import ClientCore
internal import Tree

extension DatabaseReference {
    /// Changes the value at the place by what it is: `block` is run with the value that the client knows (`NSNull` where it
    /// knows none), and again with the server's, until the server has just the value that the block was given, at most 25
    /// times. Listeners see the result at once.
    ///
    /// - Parameter block: runs on the database's thread: it must be quick and must not wait for the database. It is given
    ///   a value to change, and returns `TransactionResult.success(withValue:)` or `.abort()`.
    @preconcurrency
    public func runTransactionBlock(_ block: @escaping @Sendable (MutableData) -> TransactionResult) {
        transact(block, nil, isLocal: true)
    }

    /// As `runTransactionBlock(_:)`; `completionBlock` is told, on the callback queue: an error, whether the value was
    /// changed, and the value that is there then.
    @preconcurrency
    public func runTransactionBlock(
        _ block: @escaping @Sendable (MutableData) -> TransactionResult,
        andCompletionBlock completionBlock: @escaping ((any Error)?, Bool, DataSnapshot?) -> Void
    ) {
        transact(block, completionBlock, isLocal: true)
    }

    /// As `runTransactionBlock(_:andCompletionBlock:)`.
    ///
    /// - Parameters:
    ///   - block: changes a value, as above.
    ///   - completionBlock: told how it ended, as above.
    ///   - localEvents: whether listeners see the result before the server has confirmed it.
    @preconcurrency
    public func runTransactionBlock(
        _ block: @escaping @Sendable (MutableData) -> TransactionResult,
        andCompletionBlock completionBlock: (((any Error)?, Bool, DataSnapshot?) -> Void)?,
        withLocalEvents localEvents: Bool
    ) {
        transact(block, completionBlock, isLocal: localEvents)
    }

    /// As `runTransactionBlock(_:)`; returns whether the value was changed, and the value that is there then. When the task is
    /// cancelled it throws `CancellationError` at once, and the transaction goes on.
    @preconcurrency
    @discardableResult
    public func runTransactionBlock(
        _ block: @escaping @Sendable (MutableData) -> TransactionResult
    ) async throws -> (Bool, DataSnapshot) {
        let empty = DataSnapshot(ref: self, node: .null, index: .priority)
        return try await Answer.wait { answer in
            transact(
                block,
                { error, isCommitted, snapshot in
                    answer.give(error, or: (isCommitted, snapshot ?? empty))
                }, isLocal: true)
        }
    }

    private func transact(
        _ block: @escaping @Sendable (MutableData) -> TransactionResult,
        _ completion: (((any Error)?, Bool, DataSnapshot?) -> Void)?, isLocal: Bool
    ) {
        if path.isInfo { Misuse.stop("runTransactionBlock(_:)", "\(path) is kept by the client and can't be written") }
        owner.repository.run(TransactionRequest(ref: self, block: block, isLocal: isLocal, completion: completion))
    }
}
