internal import Tree

// The server executes these operations when it notices that this client's connection has ended. They are not local writes: this
// client's listeners see them like writes of other clients.
extension DatabaseReference {
    // MARK: Set

    /// Asks the server to set the value when this client disconnects.
    public func onDisconnectSetValue(_ value: Any?) { onDisconnectSet(value, nil, "onDisconnectSetValue(_:)", nil) }

    /// Asks the server to set the value when this client disconnects. `block` is called when the server has
    /// accepted or refused the request.
    public func onDisconnectSetValue(
        _ value: Any?, withCompletionBlock block: @escaping ((any Error)?, DatabaseReference) -> Void
    ) {
        onDisconnectSet(value, nil, "onDisconnectSetValue(_:withCompletionBlock:)", block)
    }

    /// Asks the server to set the value when this client disconnects. Returns when the server has accepted the request.
    @discardableResult
    public func onDisconnectSetValue(_ value: Any?) async throws -> DatabaseReference {
        try await waiting { onDisconnectSet(value, nil, "onDisconnectSetValue(_:)", $0) }
    }

    /// Asks the server to set the value with a priority when this client disconnects.
    public func onDisconnectSetValue(_ value: Any?, andPriority priority: Any?) {
        onDisconnectSet(value, priority, "onDisconnectSetValue(_:andPriority:)", nil)
    }

    /// Asks the server to set the value with a priority when this client disconnects. `block` is called when the server has
    /// accepted or refused the request.
    public func onDisconnectSetValue(
        _ value: Any?, andPriority priority: Any?,
        withCompletionBlock block: @escaping ((any Error)?, DatabaseReference) -> Void
    ) {
        onDisconnectSet(value, priority, "onDisconnectSetValue(_:andPriority:withCompletionBlock:)", block)
    }

    /// Asks the server to set the value with a priority when this client disconnects. Returns when the server has accepted the request.
    @discardableResult
    public func onDisconnectSetValue(_ value: Any?, andPriority priority: Any?) async throws -> DatabaseReference {
        try await waiting { onDisconnectSet(value, priority, "onDisconnectSetValue(_:andPriority:)", $0) }
    }

    // MARK: Remove

    /// Asks the server to remove the value at the path when this client disconnects.
    public func onDisconnectRemoveValue() { onDisconnectSet(nil, nil, "onDisconnectRemoveValue()", nil) }

    /// Asks the server to remove the value at the path when this client disconnects. `block` is called when the server has
    /// accepted or refused the request.
    public func onDisconnectRemoveValue(completionBlock block: @escaping ((any Error)?, DatabaseReference) -> Void) {
        onDisconnectSet(nil, nil, "onDisconnectRemoveValue(completionBlock:)", block)
    }

    /// Asks the server to remove the value at the path when this client disconnects. Returns when the server has accepted the request.
    @discardableResult
    public func onDisconnectRemoveValue() async throws -> DatabaseReference {
        try await waiting { onDisconnectSet(nil, nil, "onDisconnectRemoveValue()", $0) }
    }

    // MARK: Update

    /// Asks the server to write several paths below this one when this client disconnects.
    public func onDisconnectUpdateChildValues(_ values: [AnyHashable: Any]) {
        onDisconnectUpdate(values, "onDisconnectUpdateChildValues(_:)", nil)
    }

    /// Asks the server to write several paths below this one when this client disconnects. `block` is called when the server has
    /// accepted or refused the request.
    public func onDisconnectUpdateChildValues(
        _ values: [AnyHashable: Any], withCompletionBlock block: @escaping ((any Error)?, DatabaseReference) -> Void
    ) {
        onDisconnectUpdate(values, "onDisconnectUpdateChildValues(_:withCompletionBlock:)", block)
    }

    /// Asks the server to write several paths below this one when this client disconnects. Returns when the server
    /// has accepted the request.
    @discardableResult
    public func onDisconnectUpdateChildValues(_ values: [AnyHashable: Any]) async throws -> DatabaseReference {
        try await waiting { onDisconnectUpdate(values, "onDisconnectUpdateChildValues(_:)", $0) }
    }

    // MARK: Cancel

    /// Cancels the requests for disconnection at and below this path.
    public func cancelDisconnectOperations() { cancelDisconnect("cancelDisconnectOperations()", nil) }

    /// Cancels the requests for disconnection at and below this path. `block` is called when the server has done so or refused.
    public func cancelDisconnectOperations(completionBlock block: (((any Error)?, DatabaseReference) -> Void)?) {
        cancelDisconnect("cancelDisconnectOperations(completionBlock:)", block)
    }

    /// Cancels the requests for disconnection at and below this path. Returns when the server has done so.
    @discardableResult
    public func cancelDisconnectOperations() async throws -> DatabaseReference {
        try await waiting { cancelDisconnect("cancelDisconnectOperations()", $0) }
    }

    // MARK: Helpers

    private func onDisconnectSet(_ value: Any?, _ priority: Any?, _ function: String, _ block: Completion?) {
        operate(function, block) { (completion) throws(InvalidArgument) in
            let node = try NodeReader.node(of: value, at: path, priority: priority)
            owner.repository.onDisconnect(.put(node), at: path, completion)
        }
    }

    private func onDisconnectUpdate(_ values: [AnyHashable: Any], _ function: String, _ block: Completion?) {
        operate(function, block) { (completion) throws(InvalidArgument) in
            let changes = try NodeReader.changes(values, at: path)
            owner.repository.onDisconnect(.merge(changes), at: path, completion)
        }
    }

    private func cancelDisconnect(_ function: String, _ block: Completion?) {
        operate(function, block) { (completion) throws(InvalidArgument) in
            owner.repository.onDisconnect(.cancel, at: path, completion)
        }
    }
}
