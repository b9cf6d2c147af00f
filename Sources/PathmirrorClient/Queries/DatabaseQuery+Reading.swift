internal import ClientCore
internal import Tree

extension DatabaseQuery {
    /// The value as the server has it now, asked for once. Without a connection, what the client has of it, from a listener or
    /// from disk; an error where it has nothing.
    ///
    /// - Parameter block: runs once, on the callback queue.
    public func getData(completion block: @escaping ((any Error)?, DataSnapshot?) -> Void) {
        owner.repository.get(GetRequest(query: self, completion: block))
    }

    /// As `getData(completion:)`.
    public func getData() async throws -> DataSnapshot {
        try await withUnsafeThrowingContinuation { continuation in
            getData { error, snapshot in
                if let snapshot {
                    continuation.resume(returning: snapshot)
                } else {
                    continuation.resume(throwing: error ?? DatabaseError(.unknown, "There is no answer."))
                }
            }
        }
    }
}
