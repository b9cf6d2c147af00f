/// A namespace among those of all databases of a program. An id alone says which one it is in its database.
public struct NamespaceKey: Hashable, Sendable {
    /// See `EngineSettings.database`.
    public let database: Int
    public let id: Int64

    public init(database: Int = 0, id: Int64) {
        self.database = database
        self.id = id
    }
}
