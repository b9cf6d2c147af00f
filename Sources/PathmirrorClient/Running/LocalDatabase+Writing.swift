internal import ClientCore
internal import Tree
internal import Wire

extension LocalDatabase {
    func write(_ content: PendingWrite.Content, at path: Path, _ completion: WriteCompletion?) {
        if case .merge(let changes) = content, changes.isEmpty {
            callBack { completion?.tell(nil) }
            return
        }
        let write = PendingWrite(id: writeNumbers.next(), path: path, content: content, name: nextName())
        if let completion { completions[write.id] = completion }
        unanswered[write.id] = path
        cache?.save(write)
        raise(tree.apply(write, estimate: SyncTree.estimate(content, timestamp: serverTime)))
        machine.write(write, now: now)
        raise(transactions.overridden(at: content.places.map(path.appending)))
    }

    /// Not by the write's own number: transactions have such numbers, too, and no names, and the server takes what it misses for
    /// refused.
    private func nextName() -> WriteName? {
        namedWrites += 1
        return WriteName(writer: writer, number: namedWrites)
    }

    /// Goes on with the writes of an earlier run.
    func restoreWrites() {
        for write in cache?.pendingWrites() ?? [] {
            hasRestoredWrites = true
            writeNumbers.skip(to: write.id)
            unanswered[write.id] = write.path
            raise(tree.apply(write, estimate: SyncTree.estimate(write.content, timestamp: serverTime)))
            machine.write(write, now: now)
        }
    }

    func writeAnswered(_ id: WriteID, _ outcome: RequestOutcome, _ seq: Int64?) {
        if let effects = transactions.answered(id, outcome) { return raise(effects, seq: seq) }
        // A transaction that was purged has told its end already.
        guard let path = unanswered.removeValue(forKey: id) else { return }
        let isRefused = outcome != .done
        raise(tree.acknowledge(id, isRefused: isRefused))
        if isRefused { dataChanged(at: path) }
        let completion = completions.removeValue(forKey: id)
        let error = DatabaseError(outcome, of: "the write at \(path)")
        if let error, completion == nil { ClientLog.warning("A write was not done: \(error.message)") }
        if let completion { callBack { completion.tell(error, seq: seq) } }
    }

    func purgeWrites() {
        raise(transactions.purge())
        machine.purgeWrites(now: now)
        releaseRestoredWrites()
    }

    // MARK: On disconnect

    func onDisconnect(_ operation: OnDisconnectOperation, at path: Path, _ completion: WriteCompletion?) {
        lastRequest += 1
        let id = RequestID(rawValue: lastRequest)
        disconnectRequests[id] = (path, completion)
        switch operation {
        case .put(let node):
            disconnectQueue.put(path, node)
            machine.onDisconnectPut(id, at: path, node, now: now)
        case .merge(let changes):
            disconnectQueue.merge(changes.map { Change(path: path.appending($0.path), value: $0.value) })
            machine.onDisconnectMerge(id, at: path, changes, now: now)
        case .cancel:
            disconnectQueue.cancel(path)
            machine.onDisconnectCancel(id, at: path, now: now)
        }
    }

    func onDisconnectAnswered(_ id: RequestID, _ outcome: RequestOutcome) {
        guard let (path, completion) = disconnectRequests.removeValue(forKey: id) else { return }
        // What the server won't do is not to be told as done when the connection ends.
        if case .refused = outcome { disconnectQueue.cancel(path) }
        let error = DatabaseError(outcome, of: "the operation at \(path) for the connection's end")
        if let error, completion == nil { ClientLog.warning("An operation was not taken: \(error.message)") }
        if let completion { callBack { completion.tell(error) } }
    }

    /// The server does now what it was asked for, or did it long ago: listeners are told so without it.
    func applyDisconnectQueue() {
        let operations = disconnectQueue.operations
        disconnectQueue = DisconnectQueue()
        for operation in operations {
            for change in operation.changes {
                let value = change.value.resolved(
                    existing: tree.localValue(at: change.path) ?? .null, timestamp: serverTime)
                raise(tree.suppose(value, at: change.path))
                dataChanged(at: change.path)
            }
        }
    }
}

extension PendingWrite.Content {
    /// Where it writes, relative to its path.
    fileprivate var places: [Path] {
        switch self {
        case .overwrite: [.root]
        case .merge(let changes): changes.map(\.path)
        }
    }
}

/// What the server is to do when this client is gone.
enum OnDisconnectOperation: Sendable {
    case put(Node)
    /// Places relative to the operation's.
    case merge([Change])
    /// Nothing of what it was asked for at and below the place.
    case cancel
}
