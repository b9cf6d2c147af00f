internal import Runtime
internal import Synchronization
internal import Tree

/// A place of a database: to read it, to write it, and to come to others. Immutable; safe to use from any thread.
// Constant as its parent class is, and final.
public final class DatabaseReference: DatabaseQuery, @unchecked Sendable {
    init(owner: Database, path: Path) { super.init(owner: owner, path: path) }

    /// The root of the default database (`Database.database()`).
    public convenience init() { self.init(owner: Database.database(), path: .root) }

    /// The database that the place is in.
    public var database: Database { owner }

    /// The last key of the place; nil for the root.
    public var key: String? { path.last?.text }

    /// The place above; nil for the root.
    public var parent: DatabaseReference? { path.parent.map { DatabaseReference(owner: owner, path: $0) } }

    /// The whole database.
    public var root: DatabaseReference { DatabaseReference(owner: owner, path: .root) }

    /// The place's URL, its keys percent-encoded.
    public var url: String { owner.address.url(of: path) }

    /// The place's URL.
    public func description() -> String { url }

    /// The place below, by a key or a path of keys with slashes between them.
    public func child(_ pathString: String) -> DatabaseReference {
        let path = Misuse.check("child(_:)") { () throws(InvalidArgument) in
            guard !Path(splitting: pathString).isRoot else { throw InvalidArgument("the path is empty") }
            return try PathText.path(pathString, below: self.path)
        }
        return DatabaseReference(owner: owner, path: path)
    }

    /// A new place below, with a key that sorts behind all that were made before: by the server's time as far as it is known,
    /// and in order within one process.
    public func childByAutoId() -> DatabaseReference {
        DatabaseReference(owner: owner, path: path.appending(Key(owner.nextPushID())))
    }

    /// Ends the connections of all databases of the process, until `goOnline()`.
    public static func goOffline() {
        for database in Databases.shared.all { database.goOffline() }
    }

    /// Connects all databases of the process again.
    public static func goOnline() {
        for database in Databases.shared.all { database.goOnline() }
    }
}

extension DatabaseReference: CustomDebugStringConvertible {
    /// The place's URL.
    public var debugDescription: String { url }
}
