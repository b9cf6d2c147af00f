internal import ClientCore
internal import Tree

/// A transaction that has not ended.
struct RunningTransaction {
    let request: TransactionRequest
    /// The error of a block whose result cannot be stored.
    let invalid: InvalidResult

    final class InvalidResult {
        var error: InvalidArgument?
    }
}

extension LocalDatabase {
    func run(_ request: TransactionRequest) {
        let invalid = RunningTransaction.InvalidResult()
        let (id, effects) = transactions.begin(at: request.ref.path, appliesLocally: request.isLocal) { node in
            do throws(InvalidArgument) {
                return try request.result(of: node)
            } catch {
                invalid.error = error
                return nil
            }
        }
        transactionRequests[id] = RunningTransaction(request: request, invalid: invalid)
        raise(effects)
    }

    /// - Parameter seq: The entry that the server has created for the transactions that were sent together.
    func raise(_ effects: TransactionEffects, seq: Int64? = nil) {
        raise(effects.sync)
        for put in effects.puts { machine.write(put.write, hash: put.hash, now: now) }
        // If several transactions were sent together, the entry contains only their combined result.
        let seq = effects.outcomes.count == 1 ? seq : nil
        for outcome in effects.outcomes {
            guard let running = transactionRequests.removeValue(forKey: outcome.id) else { continue }
            end(running, outcome.result, outcome.isEstimate ? nil : seq)
        }
    }

    private func end(_ running: RunningTransaction, _ result: TransactionOutcome.Result, _ seq: Int64?) {
        let request = running.request
        switch result {
        case .committed(let node):
            callBack { request.report(nil, isCommitted: true, node, seq: seq) }
        case .abandoned(let node):
            let error = running.invalid.error.map { DatabaseError($0, in: "runTransactionBlock(_:)") }
            callBack { request.report(error, isCommitted: false, error == nil ? node : nil) }
        case .failed(let failure):
            let error = DatabaseError(failure, at: request.ref.path)
            if !request.wantsErrors { ClientLog.warning("A transaction failed: \(error.message)") }
            callBack { request.report(error, isCommitted: false, nil) }
        }
    }

    /// Re-evaluates the unsent transactions after the known data at a path has changed.
    func dataChanged(at path: Path) { raise(transactions.dataChanged(at: path)) }
}

extension DatabaseError {
    init(_ failure: TransactionFailure, at path: Path) {
        switch failure {
        case .overridden:
            self.init(.overriddenBySet, "The transaction at \(path) was cancelled: a plain write replaced it.")
        case .tooManyRetries:
            self.init(
                .maxRetries,
                "The transaction at \(path) was cancelled: other clients changed the data in each of \(TransactionQueue.maxSends) attempts."
            )
        case .connectionLost:
            self.init(
                .disconnected,
                "The connection ended before the transaction at \(path) was answered: the transaction may have been executed or not."
            )
        case .purged:
            self.init(.writeCanceled, "The transaction at \(path) was removed by purgeOutstandingWrites().")
        case .refused(let failure): self.init(failure, "the transaction at \(path)")
        }
    }
}

/// A transaction as requested by the app.
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

    /// Returns the block's result for a value, or nil if the block aborts.
    func result(of node: Node) throws(InvalidArgument) -> Node? {
        let result = block(MutableData(MutableData.Whole(node, at: ref.path)))
        guard let data = result.data else { return nil }
        if let error = data.whole.error { throw error }
        return data.whole.node
    }

    /// Whether the app is notified of the outcome.
    var wantsErrors: Bool { completion != nil }

    /// Calls the completion. Must run on the callback queue.
    func report(_ error: (any Error)?, isCommitted: Bool, _ node: Node?, seq: Int64? = nil) {
        completion?(error, isCommitted, node.map { DataSnapshot(ref: ref, node: $0, index: .priority, seq: seq) })
    }
}
