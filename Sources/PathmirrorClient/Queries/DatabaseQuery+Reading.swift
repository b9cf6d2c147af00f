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

    /// As `getData(completion:)`. Throws `CancellationError` as soon as the task is cancelled.
    public func getData() async throws -> DataSnapshot {
        try await Answer.wait { answer in
            getData { error, snapshot in
                if let snapshot {
                    answer.give(.success(snapshot))
                } else {
                    answer.give(.failure(error ?? DatabaseError(.unknown, "There is no answer.")))
                }
            }
        }
    }
}
