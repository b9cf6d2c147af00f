public import Tree
import Wire

/// The transactions of one database. Confined to the database's thread, without I/O: each call returns its effects.
///
/// A transaction is run at once on the local value, and its result is sent with the hash of the value it read. If the
/// server has other data by then, it refuses, and the transaction is run again on the newer data, up to `maxSends`
/// times. Transactions at overlapping paths are combined: those that are ready are sent as one value at the topmost
/// path, and later ones wait for the answer.
public final class TransactionQueue {
    /// Maximum number of times that a transaction is sent before it fails.
    public static let maxSends = 25

    /// - Parameters:
    ///   - makeWriteID: returns the next number of a write.
    ///   - makeRegistrationID: returns the next number of a listener.
    ///   - serverTime: returns the present time of the server's clock, in milliseconds since 1970.
    public init(
        tree: SyncTree, makeWriteID: @escaping () -> WriteID, makeRegistrationID: @escaping () -> RegistrationID,
        serverTime: @escaping () -> Int64
    ) {
        self.tree = tree
        self.makeWriteID = makeWriteID
        self.makeRegistrationID = makeRegistrationID
        self.serverTime = serverTime
    }

    private let tree: SyncTree
    private let makeWriteID: () -> WriteID
    private let makeRegistrationID: () -> RegistrationID
    private let serverTime: () -> Int64
    private let transactions = TransactionTree()
    /// The unanswered values, with the path and the transactions of each.
    private var sent: [WriteID: (path: Path, transactions: [Transaction])] = [:]
    private var lastID: UInt64 = 0

    // MARK: Steps

    /// Begins a transaction: its function is run before this call returns.
    ///
    /// - Parameter appliesLocally: false if listeners see the result only after the server has accepted it.
    public func begin(
        at path: Path, appliesLocally: Bool = true, body: @escaping TransactionBody
    ) -> (id: TransactionID, effects: TransactionEffects) {
        lastID += 1
        let id = TransactionID(rawValue: lastID)
        var effects = TransactionEffects()
        let listener = Registration(id: makeRegistrationID(), spec: QuerySpec(path: path), kinds: [])
        let transaction = Transaction(
            id: id, path: path, appliesLocally: appliesLocally, listener: listener, body: body)
        effects.add(tree.add(listener))
        if run(transaction, excluding: [], &effects) {
            transactions.add(transaction)
            sendReady(&effects)
        } else {
            finish(transaction, .abandoned(transaction.input), &effects)
        }
        return (id, effects)
    }

    /// Handles the server's answer to a sent value, or the end of the connection before it. Returns nil for numbers of
    /// other writes.
    public func answered(_ id: WriteID, _ outcome: RequestOutcome) -> TransactionEffects? {
        guard let (path, batch) = sent.removeValue(forKey: id) else { return nil }
        var effects = TransactionEffects()
        switch outcome {
        case .done:
            for transaction in batch {
                effects.add(tree.acknowledge(transaction.write, isRefused: false))
                transactions.remove(transaction)
                finish(transaction, .committed(transaction.estimate), &effects)
            }
        case .refused(let failure) where failure.status == .dataStale:
            for transaction in batch {
                if case .sentInVain(let failure) = transaction.status {
                    transaction.status = .failed(failure)
                } else {
                    transaction.status = .ready
                }
            }
        case .refused(let failure): for transaction in batch { transaction.status = .failed(.refused(failure)) }
        case .lost: for transaction in batch { transaction.status = .failed(.connectionLost) }
        case .purged: for transaction in batch { transaction.status = .failed(.purged) }
        }
        runAgain(at: path, &effects)
        sendReady(&effects)
        return effects
    }

    /// Runs the unsent transactions again that depend on a path whose data has changed.
    public func dataChanged(at path: Path) -> TransactionEffects {
        var effects = TransactionEffects()
        guard !transactions.isEmpty else { return effects }
        runAgain(at: path, &effects)
        sendReady(&effects)
        return effects
    }

    /// Cancels the transactions at, above and below these paths, which a plain set or update has overtaken. Call it
    /// after passing the write to the sync tree.
    public func overridden(at paths: [Path]) -> TransactionEffects {
        giveUp(paths.flatMap { transactions.overlapping($0) }, .overridden, paths)
    }

    /// Cancels all transactions. Those already sent may still be executed.
    public func purge() -> TransactionEffects {
        sent = [:]
        let all = transactions.root.all
        for transaction in all { transaction.status = .ready }
        return giveUp(all, .purged, [])
    }

    private func giveUp(
        _ overtaken: [Transaction], _ failure: TransactionFailure, _ paths: [Path]
    ) -> TransactionEffects {
        var effects = TransactionEffects()
        guard !overtaken.isEmpty else { return effects }
        for transaction in overtaken {
            switch transaction.status {
            case .sent: transaction.status = .sentInVain(failure)
            case .ready, .failed:
                effects.add(tree.acknowledge(transaction.write, isRefused: true))
                transactions.remove(transaction)
                finish(transaction, .failed(failure), &effects)
            case .sentInVain, .done: break
            }
        }
        for path in paths { runAgain(at: path, &effects) }
        sendReady(&effects)
        return effects
    }

    // MARK: Running

    /// Runs the function on the present value. Returns false if the function returns nil.
    private func run(
        _ transaction: Transaction, excluding: Set<WriteID>, _ effects: inout TransactionEffects
    ) -> Bool {
        transaction.input =
            tree.localValue(at: transaction.path, excluding: excluding, includingHidden: true) ?? .null
        guard let output = transaction.body(transaction.input) else { return false }
        transaction.output = output
        transaction.estimate = output.resolved(existing: transaction.input, timestamp: serverTime())
        transaction.write = makeWriteID()
        let content = PendingWrite.Content.overwrite(transaction.estimate)
        let write = PendingWrite(id: transaction.write, path: transaction.path, content: content)
        effects.add(tree.apply(write, estimate: content, isVisible: transaction.appliesLocally))
        return true
    }

    /// Runs the unsent transactions again that depend on a path, and ends those that have failed.
    private func runAgain(at path: Path, _ effects: inout TransactionEffects) {
        guard let group = transactions.group(of: path) else { return }
        let waiting = group.all.filter { $0.status != .sent && !$0.isInVain }
        // Each transaction sees the new results of those before it, and no result based on older data.
        var outdated = Set(waiting.map(\.write))
        for transaction in waiting {
            let old = transaction.write
            if case .failed(let failure) = transaction.status {
                outdated.remove(old)
                effects.add(tree.acknowledge(old, isRefused: true))
                transactions.remove(transaction)
                finish(transaction, .failed(failure), &effects)
                continue
            }
            let isSpent = transaction.sendCount >= Self.maxSends
            let isRun = !isSpent && run(transaction, excluding: outdated, &effects)
            outdated.remove(old)
            effects.add(tree.acknowledge(old, isRefused: true))
            guard !isRun else { continue }
            transactions.remove(transaction)
            finish(transaction, isSpent ? .failed(.tooManyRetries) : .abandoned(transaction.input), &effects)
        }
    }

    private func finish(
        _ transaction: Transaction, _ result: TransactionOutcome.Result, _ effects: inout TransactionEffects
    ) {
        transaction.status = .done
        effects.add(tree.remove(transaction.listener))
        effects.outcomes.append(
            TransactionOutcome(
                id: transaction.id, result: result, isEstimate: transaction.output != transaction.estimate))
    }

    // MARK: Sending

    /// Sends the transactions that have been run, except those that overlap an unanswered one.
    private func sendReady(_ effects: inout TransactionEffects) {
        transactions.root.forEachTopmost { point in
            if point.isReady { effects.puts.append(send(point.all, at: point.path)) }
        }
    }

    private func send(_ batch: [Transaction], at path: Path) -> TransactionEffects.Put {
        let found = tree.localValue(at: path, excluding: Set(batch.map(\.write)), includingHidden: true) ?? .null
        var value = found
        for transaction in batch {
            transaction.status = .sent
            transaction.sendCount += 1
            value = value.replacing(transaction.path.relative(to: path), with: transaction.output)
        }
        let id = makeWriteID()
        sent[id] = (path, batch)
        return TransactionEffects.Put(
            write: PendingWrite(id: id, path: path, content: .overwrite(value)), hash: found.hash)
    }
}

extension Transaction {
    fileprivate var isInVain: Bool { if case .sentInVain = status { true } else { false } }
}
