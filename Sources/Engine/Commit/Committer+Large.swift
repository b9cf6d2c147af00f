import LogStore
import Rules
import Runtime
import Tree

/// The end of a large write, in its place among the namespace's batches: lock the head, see that nothing came between that
/// matters, make it the next entry.
extension Committer {
    func commitLarge(_ write: LargeWrite, in namespace: LiveNamespace) {
        write.finish(attempt(write, in: namespace))
    }

    private func attempt(_ write: LargeWrite, in namespace: LiveNamespace) -> LargeWrite.Result {
        let connection = write.connection
        core.blockers.enter(index, pid: connection.backendPID)
        defer { core.blockers.leave(index) }
        let head: Int64
        do throws(LogStoreError) {
            _ = try follower.follow(namespace, try connected())
            head = try connection.lockHeadForLarge(namespace.id)
            guard try takeAll(connection, namespace, write, upTo: head) else { return .again }
        } catch {
            return .connectionFailed(error)
        }
        let snapshot = namespace.snapshot
        // The database may have lost entries and have others in their place.
        guard snapshot.seq == head, write.seq == head, snapshot.batch == write.batch,
            isStillAllowed(write, on: snapshot)
        else { return .again }
        let batch = Batch(
            namespace: namespace.id, expectedHead: head, expectedBatch: snapshot.batch, id: write.id,
            records: [write.record], rows: RowChanges())
        let start = Clock.monotonicNanoseconds
        do throws(LogStoreError) {
            try connection.commitLarge(batch, large: write.number, parts: write.parts)
        } catch {
            guard error.isConnectionLost else { return .connectionFailed(error) }
            core.metrics.unknownCommits.add()
            return resolve(batch, write, in: namespace, after: error)
        }
        core.metrics.commitSeconds.observe(Double(Clock.monotonicNanoseconds - start) / 1e9)
        core.metrics.batches.add()
        core.metrics.batchSize.observe(1)
        core.metrics.writes.add()
        let entry = Entry(
            seq: batch.newHead, committedAt: Clock.unixMilliseconds, operation: write.record.operation,
            path: write.record.path, changes: write.changes, origin: write.record.origin)
        follower.publish(
            [Step(entry: entry, before: snapshot.root, after: write.root, batch: write.id)],
            Snapshot(seq: entry.seq, root: write.root, rules: snapshot.rules, batch: write.id), in: namespace)
        tell(write, seq: entry.seq)
        return .done
    }

    /// Brings the namespace and the write up to the head, whose lock is held. False where the write has to be prepared anew.
    private func takeAll(
        _ connection: LogConnection, _ namespace: LiveNamespace, _ write: LargeWrite, upTo head: Int64
    ) throws(LogStoreError) -> Bool {
        while namespace.snapshot.seq < head || write.seq < head {
            let known = min(namespace.snapshot.seq, write.seq)
            let page = try connection.read(namespace.id, after: known, allowsGaps: true)
            let isPlain = page.allSatisfy { !$0.entry.isBulk && $0.entry.operation != .rules }
            guard page.first?.entry.seq == known + 1, isPlain else { return false }
            let mine = namespace.snapshot.seq
            follower.apply(page.filter { $0.entry.seq > mine }, to: namespace)
            let seq = write.seq
            guard write.take(page.filter { $0.entry.seq > seq }) else { return false }
        }
        return true
    }

    /// Rules may look at anything: where the tree is another one than the write was judged by, they are asked again.
    private func isStillAllowed(_ write: LargeWrite, on snapshot: Snapshot) -> Bool {
        guard snapshot.rules === write.base.rules else { return false }
        if write.item.write.auth.isAdmin || snapshot.seq == write.base.seq { return true }
        return stretches.measure("evaluation") {
            WriteTrial.refusal(of: write.item.write, on: snapshot, now: Clock.unixMilliseconds) == nil
        }
    }

    /// The connection was lost in COMMIT: asks the log over another one.
    private func resolve(
        _ batch: Batch, _ write: LargeWrite, in namespace: LiveNamespace, after error: LogStoreError
    ) -> LargeWrite.Result {
        let deadline = Clock.monotonicMilliseconds + core.settings.commitDeadlineMilliseconds
        while Clock.monotonicMilliseconds < deadline, !core.stopsNow {
            do throws(LogStoreError) {
                let connection = try connected()
                guard try connection.findBatch(batch) else { return .connectionFailed(error) }
                _ = try follower.follow(namespace, connection)
                tell(write, seq: batch.newHead)
                return .done
            } catch {
                if error.isConnectionLost { dropConnection() }
                core.pause(milliseconds: 20 + Int64.random(in: 0...80))
            }
        }
        return .failed(.outcomeUnknown)
    }

    private func tell(_ write: LargeWrite, seq: Int64) {
        write.item.sink.complete([(write.item.token, .committed(seq: seq, changes: write.told))])
    }
}
