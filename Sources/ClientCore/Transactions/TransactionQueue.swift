public import Tree
import Wire

/// The transactions of one database. Confined to its thread, without I/O: each call returns what is to be done.
///
/// A transaction is run at once on what is locally known, and its result is sent with the hash of what it found. When
/// the server has other data by then it refuses, and the transaction is run again on the newer data, up to `maxSends`
/// times. Those at overlapping places go together: the ones that are ready are sent as one value at the topmost place,
/// and later ones wait for the answer.
public final class TransactionQueue {
    /// How often a transaction is sent before it is given up.
    public static let maxSends = 25

    /// - Parameters:
    ///   - makeWriteID: the next number of a write.
    ///   - makeRegistrationID: the next number of a listener.
    ///   - serverTime: what the server's clock shows now, in milliseconds since 1970.
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
    /// What was sent together and is not answered, and where.
    private var sent: [WriteID: (path: Path, transactions: [Transaction])] = [:]
    private var lastID: UInt64 = 0

    // MARK: Steps

    /// Begins a transaction: its body is run before this returns.
    ///
    /// - Parameter appliesLocally: false to tell nobody of its result before the server has taken it.
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

    /// The server has answered what was sent, or the connection ended before it did. Numbers of other writes are of no
    /// concern here: nil is returned.
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

    /// Other data has come to a place: what depends on it and was not sent is run again.
    public func dataChanged(at path: Path) -> TransactionEffects {
        var effects = TransactionEffects()
        guard !transactions.isEmpty else { return effects }
        runAgain(at: path, &effects)
        sendReady(&effects)
        return effects
    }

    /// A plain set or update has overtaken the transactions at, above and below these places. Call it after the sync tree
    /// has been given the write.
    public func overridden(at paths: [Path]) -> TransactionEffects {
        giveUp(paths.flatMap { transactions.overlapping($0) }, .overridden, paths)
    }

    /// All writes are taken back. What was sent may have been done all the same.
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

    /// Runs the body on what is known now. False when it leaves everything as it is.
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

    /// Runs again what depends on a place and was not sent, and gives up what has failed.
    private func runAgain(at path: Path, _ effects: inout TransactionEffects) {
        guard let group = transactions.group(of: path) else { return }
        let waiting = group.all.filter { $0.status != .sent && !$0.isInVain }
        // None of them sees what another made of older data, but what those before it have made now.
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

    /// Sends what has been run, but for what overlaps with something that was sent and isn't answered.
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
