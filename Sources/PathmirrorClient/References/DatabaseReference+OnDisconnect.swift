internal import Tree

// The server does these when it notices that this client's connection has ended. They are no writes of this client's:
// its listeners see them as they see those of others.
extension DatabaseReference {
    // MARK: Set

    /// Asks the server to set the value when this client is gone.
    public func onDisconnectSetValue(_ value: Any?) { onDisconnectSet(value, nil, "onDisconnectSetValue(_:)", nil) }

    /// As `onDisconnectSetValue(_:)`; `block` is told whether the server has taken it.
    public func onDisconnectSetValue(
        _ value: Any?, withCompletionBlock block: @escaping ((any Error)?, DatabaseReference) -> Void
    ) {
        onDisconnectSet(value, nil, "onDisconnectSetValue(_:withCompletionBlock:)", block)
    }

    /// As `onDisconnectSetValue(_:)`; returns when the server has taken it.
    @discardableResult
    public func onDisconnectSetValue(_ value: Any?) async throws -> DatabaseReference {
        try await waiting { onDisconnectSet(value, nil, "onDisconnectSetValue(_:)", $0) }
    }

    /// Asks the server to set the value with a priority when this client is gone.
    public func onDisconnectSetValue(_ value: Any?, andPriority priority: Any?) {
        onDisconnectSet(value, priority, "onDisconnectSetValue(_:andPriority:)", nil)
    }

    /// As `onDisconnectSetValue(_:andPriority:)`; `block` is told whether the server has taken it.
    public func onDisconnectSetValue(
        _ value: Any?, andPriority priority: Any?,
        withCompletionBlock block: @escaping ((any Error)?, DatabaseReference) -> Void
    ) {
        onDisconnectSet(value, priority, "onDisconnectSetValue(_:andPriority:withCompletionBlock:)", block)
    }

    /// As `onDisconnectSetValue(_:andPriority:)`; returns when the server has taken it.
    @discardableResult
    public func onDisconnectSetValue(_ value: Any?, andPriority priority: Any?) async throws -> DatabaseReference {
        try await waiting { onDisconnectSet(value, priority, "onDisconnectSetValue(_:andPriority:)", $0) }
    }

    // MARK: Remove

    /// Asks the server to remove what is at the place when this client is gone.
    public func onDisconnectRemoveValue() { onDisconnectSet(nil, nil, "onDisconnectRemoveValue()", nil) }

    /// As `onDisconnectRemoveValue()`; `block` is told whether the server has taken it.
    public func onDisconnectRemoveValue(completionBlock block: @escaping ((any Error)?, DatabaseReference) -> Void) {
        onDisconnectSet(nil, nil, "onDisconnectRemoveValue(completionBlock:)", block)
    }

    /// As `onDisconnectRemoveValue()`; returns when the server has taken it.
    @discardableResult
    public func onDisconnectRemoveValue() async throws -> DatabaseReference {
        try await waiting { onDisconnectSet(nil, nil, "onDisconnectRemoveValue()", $0) }
    }

    // MARK: Update

    /// Asks the server to write several places below this one when this client is gone.
    public func onDisconnectUpdateChildValues(_ values: [AnyHashable: Any]) {
        onDisconnectUpdate(values, "onDisconnectUpdateChildValues(_:)", nil)
    }

    /// As `onDisconnectUpdateChildValues(_:)`; `block` is told whether the server has taken it.
    public func onDisconnectUpdateChildValues(
        _ values: [AnyHashable: Any], withCompletionBlock block: @escaping ((any Error)?, DatabaseReference) -> Void
    ) {
        onDisconnectUpdate(values, "onDisconnectUpdateChildValues(_:withCompletionBlock:)", block)
    }

    /// As `onDisconnectUpdateChildValues(_:)`; returns when the server has taken it.
    @discardableResult
    public func onDisconnectUpdateChildValues(_ values: [AnyHashable: Any]) async throws -> DatabaseReference {
        try await waiting { onDisconnectUpdate(values, "onDisconnectUpdateChildValues(_:)", $0) }
    }

    // MARK: Cancel

    /// Takes back what the server was asked to do at and below this place.
    public func cancelDisconnectOperations() { cancelDisconnect("cancelDisconnectOperations()", nil) }

    /// As `cancelDisconnectOperations()`; `block` is told whether the server has done it.
    public func cancelDisconnectOperations(completionBlock block: (((any Error)?, DatabaseReference) -> Void)?) {
        cancelDisconnect("cancelDisconnectOperations(completionBlock:)", block)
    }

    /// As `cancelDisconnectOperations()`; returns when the server has done it.
    @discardableResult
    public func cancelDisconnectOperations() async throws -> DatabaseReference {
        try await waiting { cancelDisconnect("cancelDisconnectOperations()", $0) }
    }

    // MARK: All of them

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
