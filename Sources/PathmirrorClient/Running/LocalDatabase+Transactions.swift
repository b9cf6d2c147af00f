internal import ClientCore
internal import Tree

/// A transaction that has not ended.
struct RunningTransaction {
    let request: TransactionRequest
    /// What the block could not be done for.
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

    /// - Parameter seq: of the entry that the server has made of what was sent together.
    func raise(_ effects: TransactionEffects, seq: Int64? = nil) {
        raise(effects.sync)
        for put in effects.puts { machine.write(put.write, hash: put.hash, now: now) }
        // Of several that were sent together, the entry has only what they came to in the end.
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
            callBack { request.tell(nil, isCommitted: true, node, seq: seq) }
        case .abandoned(let node):
            let error = running.invalid.error.map { DatabaseError($0, in: "runTransactionBlock(_:)") }
            callBack { request.tell(error, isCommitted: false, error == nil ? node : nil) }
        case .failed(let failure):
            let error = DatabaseError(failure, at: request.ref.path)
            if !request.wantsErrors { ClientLog.warning("A transaction was not done: \(error.message)") }
            callBack { request.tell(error, isCommitted: false, nil) }
        }
    }

    /// What the client knows of a place has changed: transactions that were not sent see to it.
    func dataChanged(at path: Path) { raise(transactions.dataChanged(at: path)) }
}

extension DatabaseError {
    init(_ failure: TransactionFailure, at path: Path) {
        switch failure {
        case .overridden:
            self.init(.overriddenBySet, "The transaction at \(path) was given up: a plain write took its place.")
        case .tooManyRetries:
            self.init(
                .maxRetries,
                "The transaction at \(path) was given up: others changed the data each of \(TransactionQueue.maxSends) times."
            )
        case .connectionLost:
            self.init(
                .disconnected,
                "The connection ended before the transaction at \(path) was answered: it may have been done or not.")
        case .purged:
            self.init(.writeCanceled, "The transaction at \(path) was taken back by purgeOutstandingWrites().")
        case .refused(let failure): self.init(failure, "the transaction at \(path)")
        }
    }
}

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
