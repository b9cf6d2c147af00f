/// Who works for the namespaces of an engine: one for all of them. Each may be called on any thread and returns at once.
final class NamespaceHost: Sendable {
    /// Hands a namespace to the committers.
    let schedule: @Sendable (LiveNamespace) -> Void
    /// Hands a large write to the large writer.
    let prepare: @Sendable (WriteQueue.Waiting, LiveNamespace) -> Void
    /// Has it counted anew what a namespace takes of memory.
    let recount: @Sendable (LiveNamespace) -> Void
    /// Has unused namespaces let go, as there is too much in memory.
    let needRoom: @Sendable () -> Void

    init(
        schedule: @escaping @Sendable (LiveNamespace) -> Void,
        prepare: @escaping @Sendable (WriteQueue.Waiting, LiveNamespace) -> Void,
        recount: @escaping @Sendable (LiveNamespace) -> Void, needRoom: @escaping @Sendable () -> Void
    ) {
        self.schedule = schedule
        self.prepare = prepare
        self.recount = recount
        self.needRoom = needRoom
    }
}
