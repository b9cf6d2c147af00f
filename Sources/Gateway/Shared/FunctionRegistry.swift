public import Feeds

/// The database functions that the Functions emulator has registered. Only `pathmirror dev` has one.
public protocol FunctionRegistry: Sendable {
    /// Registers a function. Calls the completion once, on any thread, when changes from then on reach the function.
    ///
    /// - Parameter completion: Receives nil, or the reason why the function can't be registered.
    func register(_ trigger: FunctionTrigger, _ completion: @escaping @Sendable (_ problem: String?) -> Void)
}
