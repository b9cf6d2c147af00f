internal import ClientCore
internal import Tree

/// What the server says of a write that it has done.
public struct WriteReceipt: Sendable {
    /// The place that was written.
    public let ref: DatabaseReference
    /// The seq of the write's entry in the gateway's log, for `Database.waitFor(seq:timeout:)` on other devices and
    /// `X-Pathmirror-Min-Seq` of REST. Nil where the server is no Pathmirror gateway.
    public let seq: Int?
}

extension DatabaseReference {
    /// As `setValue(_:)` (nil removes what is at the place); returns when the server has done it, with the write's seq.
    ///
    /// - Throws: `DatabaseError`, with `invalidArgument` for a value that can't be stored; `CancellationError` as soon as the task
    ///   is cancelled: the write stays, and is sent.
    @discardableResult
    public func commitValue(_ value: Any?) async throws -> WriteReceipt {
        try await receipt("commitValue(_:)") { () throws(InvalidArgument) in
            .overwrite(try NodeReader.node(of: value, at: path, priority: nil))
        }
    }

    /// As `updateChildValues(_:)`; returns when the server has done it, with the write's seq.
    ///
    /// - Throws: `DatabaseError`, with `invalidArgument` for values that can't be stored; `CancellationError` as for `commitValue(_:)`.
    ///   An update of nothing has no seq.
    @discardableResult
    public func commitChildValues(_ values: [AnyHashable: Any]) async throws -> WriteReceipt {
        try await receipt("commitChildValues(_:)") { () throws(InvalidArgument) in
            .merge(try NodeReader.changes(values, at: path))
        }
    }

    private func receipt(
        _ function: String, _ content: () throws(InvalidArgument) -> PendingWrite.Content
    ) async throws -> WriteReceipt {
        let write: PendingWrite.Content
        do throws(InvalidArgument) {
            guard !path.isInfo else { throw InvalidArgument("\(path) is kept by the client and can't be written") }
            write = try content()
        } catch {
            throw DatabaseError(error, in: function)
        }
        return try await Answer.wait { answer in
            let completion = WriteCompletion(
                self,
                withSeq: { error, ref, seq in
                    answer.give(error, or: WriteReceipt(ref: ref, seq: seq.map { Int($0) }))
                })
            owner.repository.write(write, at: path, completion)
        }
    }
}
