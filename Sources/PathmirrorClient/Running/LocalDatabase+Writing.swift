internal import ClientCore
internal import Tree
internal import Wire

extension LocalDatabase {
    func write(_ content: PendingWrite.Content, at path: Path, _ completion: WriteCompletion?) {
        if case .merge(let changes) = content, changes.isEmpty {
            callBack { completion?.report(nil) }
            return
        }
        let write = PendingWrite(id: writeNumbers.next(), path: path, content: content, name: nextName())
        if let completion { completions[write.id] = completion }
        unanswered[write.id] = path
        cache?.save(write)
        raise(tree.apply(write, estimate: SyncTree.estimate(content, timestamp: serverTime)))
        machine.write(write, now: now)
        raise(transactions.overridden(at: content.paths.map(path.appending)))
    }

    /// Returns a name for a write. Names have their own numbers: transactions use write numbers but have no names, and the server
    /// treats missing numbers as refused writes.
    private func nextName() -> WriteName? {
        namedWrites += 1
        return WriteName(writer: writer, number: namedWrites)
    }

    /// Resumes the writes of an earlier run.
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
        // A purged transaction has already reported its end.
        guard let path = unanswered.removeValue(forKey: id) else { return }
        let isRefused = outcome != .done
        raise(tree.acknowledge(id, isRefused: isRefused))
        if isRefused { dataChanged(at: path) }
        let completion = completions.removeValue(forKey: id)
        let error = DatabaseError(outcome, of: "the write at \(path)")
        if let error, completion == nil { ClientLog.warning("A write failed: \(error.message)") }
        if let completion { callBack { completion.report(error, seq: seq) } }
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
        // An operation that the server refused must not be shown as executed when the connection ends.
        if case .refused = outcome { disconnectQueue.cancel(path) }
        let error = DatabaseError(outcome, of: "the onDisconnect operation at \(path)")
        if let error, completion == nil { ClientLog.warning("An onDisconnect operation failed: \(error.message)") }
        if let completion { callBack { completion.report(error) } }
    }

    /// Shows the result of the onDisconnect operations to listeners. The server executes them now, or has already done so, but
    /// cannot notify the client.
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
    /// The written paths, relative to the path of the write.
    fileprivate var paths: [Path] {
        switch self {
        case .overwrite: [.root]
        case .merge(let changes): changes.map(\.path)
        }
    }
}

/// A request for the time when this client disconnects.
enum OnDisconnectOperation: Sendable {
    case put(Node)
    /// Changes at paths relative to the operation's path.
    case merge([Change])
    /// Cancels all requests at and below the path.
    case cancel
}
