internal import ClientCore
internal import Foundation
internal import Synchronization

extension Database {
    /// Waits until this client has been told everything that the server's log has up to an entry: of a write elsewhere whose
    /// seq came here by other means (`X-Pathmirror-Seq` of REST, `WriteReceipt.seq`, `DataSnapshot.seq`).
    ///
    /// When it returns, every listener that was there when it was called, and whose data comes from the server, has been
    /// called back for all changes up to the entry, and `getData()` answers as of it or a later one. While there is no
    /// connection it waits. A listener that the server has refused has nothing to be told.
    ///
    /// - Parameters:
    ///   - seq: of the same database; of one that was restored from an older backup since, it may mean another entry.
    ///   - timeout: nil to wait for ever. Cancelling the task ends the wait, too.
    /// - Throws: `DatabaseError` with the code `timedOut`; `permissionDenied` where the client reads nothing at all, as the log
    ///   is nobody's business then (listen to something, or read it, first); `unsupported` where the server is no Pathmirror
    ///   gateway; `unavailable` when the app is deleted. `CancellationError`.
    public func waitFor(seq: Int, timeout: Duration? = nil) async throws {
        let milliseconds = timeout.map { duration -> Int64 in
            let (seconds, attoseconds) = duration.components
            // What is longer than a year is for ever.
            return min(max(0, seconds), 31_536_000) * 1_000 + max(0, attoseconds) / 1_000_000_000_000_000
        }
        let repository = repository
        let id = RequestID(rawValue: UInt64(Listener.nextHandle()) | 1 << 63)
        try await withTaskCancellationHandler {
            try await withUnsafeThrowingContinuation { (continuation: UnsafeContinuation<Void, any Error>) in
                let wait = SeqWait(Int64(seq), continuation)
                repository.wait(id, wait, milliseconds: milliseconds)
                if Task.isCancelled { repository.perform { $0.cancelWait(id) } }
            }
        } onCancel: {
            repository.perform { $0.cancelWait(id) }
        }
    }
}
