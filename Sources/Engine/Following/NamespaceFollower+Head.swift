import LogStore
import Tree

/// Whether a namespace is at the head, and how it gets there under the head's lock.
extension NamespaceFollower {
    func isAtHead(_ namespace: LiveNamespace, _ connection: LogConnection) throws(LogStoreError) -> Bool {
        let known = namespace.snapshot
        guard let now = try connection.heads([namespace.id]).first else { return false }
        return now.head == known.seq && known.isOf(now.batch)
    }

    /// Takes the head's lock and brings the snapshot up to it; `isHeld` is false when that must be tried again. Also tells
    /// which batches the snapshot was brought up by.
    func lockHead(
        _ namespace: LiveNamespace, _ connection: LogConnection
    ) throws(LogStoreError) -> (isHeld: Bool, batches: [[UInt8]]) {
        let known = namespace.snapshot
        let head: Int64
        do throws(LogStoreError) {
            head = try connection.lockHead(namespace.id, expectedHead: known.seq)
        } catch {
            // Looks what became of it, says so, and ends it here.
            if case .unknownNamespace = error { try reload(namespace, connection) }
            throw error
        }
        // Whether the entry there is still the same, the commit will see.
        guard head != known.seq else { return (true, []) }
        // Reading under the lock sees all of it; a tree that has to be loaded anew needs a transaction of its own.
        var log = LogFollower(namespace.id, at: known.cursor) { $0.checksHistory = true }
        let event: LogEvent
        do throws(LogStoreError) {
            event = try log.next(on: connection)
        } catch {
            // Nobody else knows that the lock is held: it would keep all writers waiting until the server ends the transaction.
            if connection.isOpen { connection.unlockHead() }
            throw error
        }
        guard case .entries(let entries) = event, entries.allSatisfy(\.isPlain) else {
            connection.unlockHead()
            return (false, try follow(namespace, connection, to: head))
        }
        apply(entries, to: namespace)
        let batches = entries.map(\.batchID)
        guard namespace.snapshot.seq == head else {
            connection.unlockHead()
            return (false, batches)
        }
        return (true, batches)
    }
}
