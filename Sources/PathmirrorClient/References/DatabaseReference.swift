internal import Runtime
internal import Synchronization
internal import Tree

/// A path of a database, for reading, writing and navigation. Immutable; safe to use from any thread.
// Immutable like its superclass, and final.
public final class DatabaseReference: DatabaseQuery, @unchecked Sendable {
    init(owner: Database, path: Path) { super.init(owner: owner, path: path) }

    /// Creates a reference to the root of the default database (`Database.database()`).
    public convenience init() { self.init(owner: Database.database(), path: .root) }

    /// The database of the path.
    public var database: Database { owner }

    /// The last key of the path, or nil for the root.
    public var key: String? { path.last?.text }

    /// The parent path, or nil for the root.
    public var parent: DatabaseReference? { path.parent.map { DatabaseReference(owner: owner, path: $0) } }

    /// The reference to the root of the database.
    public var root: DatabaseReference { DatabaseReference(owner: owner, path: .root) }

    /// The path's URL, with percent-encoded keys.
    public var url: String { owner.address.url(of: path) }

    /// Returns the path's URL.
    public func description() -> String { url }

    /// Returns the reference to a child, given by a key or by several keys separated by slashes.
    public func child(_ pathString: String) -> DatabaseReference {
        let path = Misuse.check("child(_:)") { () throws(InvalidArgument) in
            guard !Path(splitting: pathString).isRoot else { throw InvalidArgument("the path is empty") }
            return try PathText.path(pathString, below: self.path)
        }
        return DatabaseReference(owner: owner, path: path)
    }

    /// Returns the reference to a new child whose key sorts after all keys generated earlier: by the server's time, if known, and
    /// in order within one process.
    public func childByAutoId() -> DatabaseReference {
        DatabaseReference(owner: owner, path: path.appending(Key(owner.nextPushID())))
    }

    /// Closes the connections of all databases of the process until `goOnline()`.
    public static func goOffline() {
        for database in DatabaseRegistry.shared.all { database.goOffline() }
    }

    /// Reconnects all databases of the process.
    public static func goOnline() {
        for database in DatabaseRegistry.shared.all { database.goOnline() }
    }
}

extension DatabaseReference: CustomDebugStringConvertible {
    /// The path's URL.
    public var debugDescription: String { url }
}
