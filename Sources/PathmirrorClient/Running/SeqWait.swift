internal import Tree

/// Somebody who waits for an entry of the server's log.
struct SeqWait: Sendable {
    let seq: Int64
    private let continuation: UnsafeContinuation<Void, any Error>

    init(_ seq: Int64, _ continuation: UnsafeContinuation<Void, any Error>) {
        self.seq = seq
        self.continuation = continuation
    }

    /// Once, on the callback queue.
    func end(_ error: (any Error)?) {
        if let error { continuation.resume(throwing: error) } else { continuation.resume() }
    }
}
