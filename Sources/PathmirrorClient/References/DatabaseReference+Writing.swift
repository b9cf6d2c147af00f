internal import ClientCore
internal import Foundation
internal import Tree

// This client's listeners see each write at once. With persistence, the write is on disk before the call returns.
// It is sent when there is a connection. Its completion runs on the callback queue with the server's answer, and waits
// while there is no connection.
extension DatabaseReference {
    // MARK: Values

    /// Replaces the value at the path, including its priority. Nil removes the value.
    ///
    /// - Parameter value: Strings, numbers, Booleans, dictionaries with string keys, arrays, and the results of `ServerValue`. Any
    ///   other type terminates the process, because the call cannot report an error.
    public func setValue(_ value: Any?) { set(value, nil, "setValue(_:)", nil) }

    /// Replaces the value at the path. `block` receives the outcome.
    public func setValue(_ value: Any?, withCompletionBlock block: @escaping ((any Error)?, DatabaseReference) -> Void)
    {
        set(value, nil, "setValue(_:withCompletionBlock:)", block)
    }

    /// Replaces the value at the path and returns when the server has done the write. If the task is cancelled, it throws
    /// `CancellationError` at once, and the write remains. This holds for all async methods here.
    @discardableResult
    public func setValue(_ value: Any?) async throws -> DatabaseReference {
        try await waiting { set(value, nil, "setValue(_:)", $0) }
    }

    /// Replaces the value at the path, with a priority: a number, a string, or nil.
    public func setValue(_ value: Any?, andPriority priority: Any?) {
        set(value, priority, "setValue(_:andPriority:)", nil)
    }

    /// Replaces the value at the path, with a priority. `block` receives the outcome.
    public func setValue(
        _ value: Any?, andPriority priority: Any?,
        withCompletionBlock block: @escaping ((any Error)?, DatabaseReference) -> Void
    ) {
        set(value, priority, "setValue(_:andPriority:withCompletionBlock:)", block)
    }

    /// Replaces the value at the path, with a priority, and returns when the server has done the write.
    @discardableResult
    public func setValue(_ value: Any?, andPriority priority: Any?) async throws -> DatabaseReference {
        try await waiting { set(value, priority, "setValue(_:andPriority:)", $0) }
    }

    /// Removes the value at the path.
    public func removeValue() { set(nil, nil, "removeValue()", nil) }

    /// Removes the value at the path. `block` receives the outcome.
    public func removeValue(completionBlock block: @escaping ((any Error)?, DatabaseReference) -> Void) {
        set(nil, nil, "removeValue(completionBlock:)", block)
    }

    /// Removes the value at the path and returns when the server has done the write.
    @discardableResult
    public func removeValue() async throws -> DatabaseReference {
        try await waiting { set(nil, nil, "removeValue()", $0) }
    }

    private func set(_ value: Any?, _ priority: Any?, _ function: String, _ block: Completion?) {
        operate(function, block) { (completion) throws(InvalidArgument) in
            let node = try NodeReader.node(of: value, at: path, priority: priority)
            owner.repository.write(.overwrite(node), at: path, completion)
        }
    }

    // MARK: Priorities

    /// Sets the priority of the value at the path: a number, a string, or nil for none.
    public func setPriority(_ priority: Any?) { setPriority(priority, "setPriority(_:)", nil) }

    /// Sets the priority of the value at the path. `block` receives the outcome.
    public func setPriority(
        _ priority: Any?, withCompletionBlock block: @escaping ((any Error)?, DatabaseReference) -> Void
    ) {
        setPriority(priority, "setPriority(_:withCompletionBlock:)", block)
    }

    /// Sets the priority of the value at the path and returns when the server has done the write.
    @discardableResult
    public func setPriority(_ priority: Any?) async throws -> DatabaseReference {
        try await waiting { setPriority(priority, "setPriority(_:)", $0) }
    }

    private func setPriority(_ priority: Any?, _ function: String, _ block: Completion?) {
        operate(function, block) { (completion) throws(InvalidArgument) in
            let node = try NodeReader.priority(priority, at: path)
            owner.repository.write(.overwrite(node), at: path.appending(.priority), completion)
        }
    }

    // MARK: Updates

    /// Writes several paths below this one atomically. Keys may be paths.
    public func updateChildValues(_ values: [AnyHashable: Any]) { update(values, "updateChildValues(_:)", nil) }

    /// Writes several paths below this one atomically. `block` receives the outcome.
    public func updateChildValues(
        _ values: [AnyHashable: Any], withCompletionBlock block: @escaping ((any Error)?, DatabaseReference) -> Void
    ) {
        update(values, "updateChildValues(_:withCompletionBlock:)", block)
    }

    /// Writes several paths below this one atomically and returns when the server has done the write.
    @discardableResult
    public func updateChildValues(_ values: [AnyHashable: Any]) async throws -> DatabaseReference {
        try await waiting { update(values, "updateChildValues(_:)", $0) }
    }

    private func update(_ values: [AnyHashable: Any], _ function: String, _ block: Completion?) {
        operate(function, block) { (completion) throws(InvalidArgument) in
            let changes = try NodeReader.changes(values, at: path)
            owner.repository.write(.merge(changes), at: path, completion)
        }
    }
}

/// The completion of one of the app's writes.
// Safe: the closure, which need not be Sendable, runs once, on the database's callback queue.
struct WriteCompletion: @unchecked Sendable {
    private let body: ((any Error)?, DatabaseReference, Int64?) -> Void
    private let ref: DatabaseReference

    init(_ ref: DatabaseReference, _ body: @escaping ((any Error)?, DatabaseReference) -> Void) {
        self.ref = ref
        self.body = { error, ref, _ in body(error, ref) }
    }

    /// - Parameter body: Also receives the seq of the write's entry, if the server reports it.
    init(_ ref: DatabaseReference, withSeq body: @escaping ((any Error)?, DatabaseReference, Int64?) -> Void) {
        self.ref = ref
        self.body = body
    }

    /// Calls the completion, with nil for success. Must run on the callback queue.
    func report(_ error: (any Error)?, seq: Int64? = nil) { body(error, ref, seq) }
}

extension DatabaseReference {
    typealias Completion = ((any Error)?, DatabaseReference) -> Void

    /// Runs the body with the completion of an operation. An error of the body is passed to the completion, or terminates the
    /// process if there is none.
    func operate(
        _ function: String, _ completion: Completion?,
        _ body: (WriteCompletion?) throws(InvalidArgument) -> Void
    ) {
        let wrapped = completion.map { WriteCompletion(self, $0) }
        do throws(InvalidArgument) {
            guard !path.isInfo else { throw InvalidArgument("\(path) is kept by the client and can't be written") }
            try body(wrapped)
        } catch {
            guard let wrapped else { Misuse.stop(function, error.description) }
            owner.repository.callBack { wrapped.report(DatabaseError(error, in: function)) }
        }
    }

    /// Waits for an operation's completion. Cancelling the task ends the wait, not the operation.
    func waiting(_ start: (@escaping Completion) -> Void) async throws -> DatabaseReference {
        try await Answer.wait { answer in
            start { error, ref in answer.give(error, or: ref) }
        }
    }
}

/// The server's confirmation of a write.
public struct WriteReceipt: Sendable {
    /// The path that was written.
    public let ref: DatabaseReference
    /// The seq of the write's entry in the gateway's log, for `Database.waitFor(seq:timeout:)` on other devices and
    /// `X-Pathmirror-Min-Seq` in REST. Nil if the server is not a Pathmirror gateway.
    public let seq: Int?
}

extension DatabaseReference {
    /// Replaces the value at the path (nil removes it), and returns the write's seq when the server has done the write.
    ///
    /// - Throws: `DatabaseError`, with `invalidArgument` for a value that cannot be stored; `CancellationError` as soon as the task
    ///   is cancelled: the write remains, and is sent.
    @discardableResult
    public func commitValue(_ value: Any?) async throws -> WriteReceipt {
        try await receipt("commitValue(_:)") { () throws(InvalidArgument) in
            .overwrite(try NodeReader.node(of: value, at: path, priority: nil))
        }
    }

    /// Writes several paths below this one atomically, and returns the write's seq when the server has done the write. An
    /// empty update has no seq.
    ///
    /// - Throws: `DatabaseError`, with `invalidArgument` for values that cannot be stored; `CancellationError` as in `commitValue(_:)`.
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
