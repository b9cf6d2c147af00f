public import Foundation
internal import Tree

/// What was at a place of a database at one moment. Immutable; safe to use from any thread.
///
/// It shares its memory with the database's own copy, and becomes Foundation's types only where `value` is asked for:
/// a snapshot of a large tree costs nothing in itself. Walk large ones by `children` and `childSnapshot(forPath:)`.
public final class DataSnapshot: Sendable {
    /// The reference to the place.
    public let ref: DatabaseReference
    let node: Node
    private let index: Query.Index

    init(ref: DatabaseReference, node: Node, index: Query.Index) {
        self.ref = ref
        self.node = node
        self.index = index
    }

    /// An empty snapshot of the default database's root.
    public convenience init() {
        self.init(ref: DatabaseReference(), node: .null, index: .priority)
    }

    /// The last key of the place; empty for the root.
    public var key: String { ref.key ?? "" }

    /// The value: `NSNull`, `NSNumber`, `String`, `[String: Any]`, or `[Any]` where the keys read as an array's. Made anew
    /// with each call, in time that grows with the value's size.
    public var value: Any? { node.foundationValue() }

    /// The value with its priorities, as `.value` and `.priority`; never arrays. Writing it back restores all of it.
    public func valueInExportFormat() -> Any? { node.foundationExport() }

    /// The priority: a number, a string, or `NSNull` where there is none.
    public var priority: Any? { node.priority.foundationValue() }

    /// Whether there is anything.
    public func exists() -> Bool { !node.isNull }

    /// Whether there are children, and not just a leaf.
    public func hasChildren() -> Bool { node.isBranch }

    /// Whether there is anything at the path below.
    public func hasChild(_ childPathString: String) -> Bool {
        !node[checked(childPathString, "hasChild(_:)")].isNull
    }

    /// The snapshot of what is at the path below.
    public func childSnapshot(forPath childPathString: String) -> DataSnapshot {
        let relative = checked(childPathString, "childSnapshot(forPath:)")
        let childRef = DatabaseReference(owner: ref.owner, path: ref.path.appending(relative))
        return DataSnapshot(ref: childRef, node: node[relative], index: index)
    }

    /// How many children there are.
    public var childrenCount: UInt { UInt(node.childCount) }

    /// The children's snapshots (`DataSnapshot`), in the order of the query that the snapshot came from.
    public var children: NSEnumerator {
        let snapshots = childSnapshots.makeIterator()
        return ClosureEnumerator(snapshots)
    }

    /// The children's snapshots, in the order of the query that the snapshot came from. O(1) for the first by key;
    /// O(n log n) by another order.
    public var childSnapshots: some Sequence<DataSnapshot> & Sendable {
        ChildOrder.entries(of: node, by: index).lazy.map { [ref, index] entry in
            let childRef = DatabaseReference(owner: ref.owner, path: ref.path.appending(entry.key))
            return DataSnapshot(ref: childRef, node: entry.node, index: index)
        }
    }

    private func checked(_ text: String, _ function: String) -> Path {
        Misuse.check(function) { () throws(InvalidArgument) in try PathText.path(text) }
    }
}

extension DataSnapshot: CustomStringConvertible {
    /// The place and the value as JSON.
    public var description: String {
        "\(ref.path): \(String(decoding: JSONWriter.encode(node, form: .export), as: UTF8.self))"
    }
}
