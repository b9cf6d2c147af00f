internal import ClientCore
internal import Tree

extension DatabaseReference {
    /// Runs a transaction. `block` runs with the value that the client knows (`NSNull` if it knows none), and again with the server's
    /// value, until the server still has exactly the value that the block received, at most 25 times. Listeners see the result at once.
    ///
    /// - Parameter block: Receives the value to change, and returns `TransactionResult.success(withValue:)` or `.abort()`. It runs
    ///   on the database's thread, so it must be quick and must not wait for the database.
    @preconcurrency
    public func runTransactionBlock(_ block: @escaping @Sendable (MutableData) -> TransactionResult) {
        transact(block, nil, isLocal: true)
    }

    /// Runs a transaction. `completionBlock` runs on the callback queue with an error, whether the value was
    /// changed, and the final value.
    @preconcurrency
    public func runTransactionBlock(
        _ block: @escaping @Sendable (MutableData) -> TransactionResult,
        andCompletionBlock completionBlock: @escaping ((any Error)?, Bool, DataSnapshot?) -> Void
    ) {
        transact(block, completionBlock, isLocal: true)
    }

    /// Runs a transaction.
    ///
    /// - Parameters:
    ///   - block: Changes the value; see `runTransactionBlock(_:)`.
    ///   - completionBlock: Runs on the callback queue with an error, whether the value was changed, and the final value.
    ///   - localEvents: Whether listeners see the result before the server has confirmed it.
    @preconcurrency
    public func runTransactionBlock(
        _ block: @escaping @Sendable (MutableData) -> TransactionResult,
        andCompletionBlock completionBlock: (((any Error)?, Bool, DataSnapshot?) -> Void)?,
        withLocalEvents localEvents: Bool
    ) {
        transact(block, completionBlock, isLocal: localEvents)
    }

    /// Runs a transaction and returns whether the value was changed, and the final value. If the task is cancelled, it throws
    /// `CancellationError` at once, and the transaction continues.
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
