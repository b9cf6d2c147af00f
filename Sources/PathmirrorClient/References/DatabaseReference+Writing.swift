internal import ClientCore
internal import Foundation
internal import Tree

// Each write is seen by this client's listeners at once, is kept on disk before the call returns where persistence is on,
// and is sent when there is a connection. Its completion is told what the server said, on the callback queue; while there
// is no connection it waits.
extension DatabaseReference {
    // MARK: Values

    /// Replaces what is at the place, its priority included. Nil removes it.
    ///
    /// - Parameter value: strings, numbers, Booleans, dictionaries with string keys, arrays, and what `ServerValue` makes.
    ///   Anything else ends the process, as nobody would be told of the error.
    public func setValue(_ value: Any?) { set(value, nil, "setValue(_:)", nil) }

    /// As `setValue(_:)`; `block` is told what became of it.
    public func setValue(_ value: Any?, withCompletionBlock block: @escaping ((any Error)?, DatabaseReference) -> Void)
    {
        set(value, nil, "setValue(_:withCompletionBlock:)", block)
    }

    /// As `setValue(_:)`; returns when the server has done it. When the task is cancelled it throws `CancellationError` at once,
    /// and the write stays: so do all forms of this kind.
    @discardableResult
    public func setValue(_ value: Any?) async throws -> DatabaseReference {
        try await waiting { set(value, nil, "setValue(_:)", $0) }
    }

    /// Replaces what is at the place, with a priority: a number, a string, or nil.
    public func setValue(_ value: Any?, andPriority priority: Any?) {
        set(value, priority, "setValue(_:andPriority:)", nil)
    }

    /// As `setValue(_:andPriority:)`; `block` is told what became of it.
    public func setValue(
        _ value: Any?, andPriority priority: Any?,
        withCompletionBlock block: @escaping ((any Error)?, DatabaseReference) -> Void
    ) {
        set(value, priority, "setValue(_:andPriority:withCompletionBlock:)", block)
    }

    /// As `setValue(_:andPriority:)`; returns when the server has done it.
    @discardableResult
    public func setValue(_ value: Any?, andPriority priority: Any?) async throws -> DatabaseReference {
        try await waiting { set(value, priority, "setValue(_:andPriority:)", $0) }
    }

    /// Removes what is at the place.
    public func removeValue() { set(nil, nil, "removeValue()", nil) }

    /// As `removeValue()`; `block` is told what became of it.
    public func removeValue(completionBlock block: @escaping ((any Error)?, DatabaseReference) -> Void) {
        set(nil, nil, "removeValue(completionBlock:)", block)
    }

    /// As `removeValue()`; returns when the server has done it.
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

    /// Sets the priority of what is at the place: a number, a string, or nil for none.
    public func setPriority(_ priority: Any?) { setPriority(priority, "setPriority(_:)", nil) }

    /// As `setPriority(_:)`; `block` is told what became of it.
    public func setPriority(
        _ priority: Any?, withCompletionBlock block: @escaping ((any Error)?, DatabaseReference) -> Void
    ) {
        setPriority(priority, "setPriority(_:withCompletionBlock:)", block)
    }

    /// As `setPriority(_:)`; returns when the server has done it.
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

    /// Writes several places below this one at once: all of them are done, or none. Keys may be paths.
    public func updateChildValues(_ values: [AnyHashable: Any]) { update(values, "updateChildValues(_:)", nil) }

    /// As `updateChildValues(_:)`; `block` is told what became of it.
    public func updateChildValues(
        _ values: [AnyHashable: Any], withCompletionBlock block: @escaping ((any Error)?, DatabaseReference) -> Void
    ) {
        update(values, "updateChildValues(_:withCompletionBlock:)", block)
    }

    /// As `updateChildValues(_:)`; returns when the server has done it.
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

/// What an app wants to be told of one of its writes.
// Safe: the closure, which need not be Sendable, runs once, on the database's callback queue.
struct WriteCompletion: @unchecked Sendable {
    private let body: ((any Error)?, DatabaseReference, Int64?) -> Void
    private let ref: DatabaseReference

    init(_ ref: DatabaseReference, _ body: @escaping ((any Error)?, DatabaseReference) -> Void) {
        self.ref = ref
        self.body = { error, ref, _ in body(error, ref) }
    }

    /// - Parameter body: is also given the seq of the write's entry, where the server says it.
    init(_ ref: DatabaseReference, withSeq body: @escaping ((any Error)?, DatabaseReference, Int64?) -> Void) {
        self.ref = ref
        self.body = body
    }

    /// Nil for success. On the callback queue.
    func tell(_ error: (any Error)?, seq: Int64? = nil) { body(error, ref, seq) }
}

extension DatabaseReference {
    typealias Completion = ((any Error)?, DatabaseReference) -> Void

    /// Runs the body with the completion of an operation; what it throws is told to the completion, or ends the process where
    /// there is none.
    func operate(
        _ function: String, _ completion: Completion?,
        _ body: (WriteCompletion?) throws(InvalidArgument) -> Void
    ) {
        let told = completion.map { WriteCompletion(self, $0) }
        do throws(InvalidArgument) {
            guard !path.isInfo else { throw InvalidArgument("\(path) is kept by the client and can't be written") }
            try body(told)
        } catch {
            guard let told else { Misuse.stop(function, error.description) }
            owner.repository.callBack { told.tell(DatabaseError(error, in: function)) }
        }
    }

    /// Waits for an operation's completion. The cancellation of the task ends the waiting, not the operation.
    func waiting(_ start: (@escaping Completion) -> Void) async throws -> DatabaseReference {
        try await Answer.wait { answer in
            start { error, ref in answer.give(error, or: ref) }
        }
    }
}

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
