internal import ClientCore
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
