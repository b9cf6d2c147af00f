public import Foundation
internal import Tree

/// The value at a path of a database at one moment. Immutable; safe to use from any thread.
///
/// A snapshot shares memory with the database's own copy and is converted to Foundation types only by `value`, so the snapshot of a
/// large tree is cheap. Traverse large snapshots with `children` and `childSnapshot(forPath:)`.
public final class DataSnapshot: Sendable {
    /// The reference to the path.
    public let ref: DatabaseReference
    let node: Node
    private let index: Query.Index
    /// The entry of the gateway's log at which the snapshot holds: it is the value after this entry and before the next one. Data
    /// from disk may be slightly newer, but never older.
    ///
    /// Nil if the snapshot contains data that only this client has (an unanswered write, an estimate), if it is incomplete, or if
    /// the server is not a Pathmirror gateway.
    public let seq: Int?

    init(ref: DatabaseReference, node: Node, index: Query.Index, seq: Int64? = nil) {
        self.seq = seq.map { Int($0) }
        self.ref = ref
        self.node = node
        self.index = index
    }

    /// Creates an empty snapshot of the default database's root.
    public convenience init() {
        self.init(ref: DatabaseReference(), node: .null, index: .priority)
    }

    /// The last key of the path, or an empty string for the root.
    public var key: String { ref.key ?? "" }

    /// The value: `NSNull`, `NSNumber`, `String`, `[String: Any]`, or `[Any]` if the keys form an array. Converted on each call, in
    /// time proportional to the value's size.
    public var value: Any? { node.foundationValue() }

    /// Returns the value with its priorities, as `.value` and `.priority`; never arrays. Writing it back restores everything.
    public func valueInExportFormat() -> Any? { node.foundationExport() }

    /// The priority: a number, a string, or `NSNull` if there is none.
    public var priority: Any? { node.priority.foundationValue() }

    /// Returns whether there is a value.
    public func exists() -> Bool { !node.isNull }

    /// Returns whether the value has children and is not a leaf.
    public func hasChildren() -> Bool { node.isBranch }

    /// Returns whether there is a value at a path below.
    public func hasChild(_ childPathString: String) -> Bool {
        !node[checked(childPathString, "hasChild(_:)")].isNull
    }

    /// Returns the snapshot of the value at a path below.
    public func childSnapshot(forPath childPathString: String) -> DataSnapshot {
        let relative = checked(childPathString, "childSnapshot(forPath:)")
        let childRef = DatabaseReference(owner: ref.owner, path: ref.path.appending(relative))
        return DataSnapshot(ref: childRef, node: node[relative], index: index, seq: seq.map { Int64($0) })
    }

    /// The number of children.
    public var childrenCount: UInt { UInt(node.childCount) }

    /// The children's snapshots (`DataSnapshot`), in the order of the query of this snapshot.
    public var children: NSEnumerator {
        let snapshots = childSnapshots.makeIterator()
        return ClosureEnumerator(snapshots)
    }

    /// The children's snapshots, in the order of the query of this snapshot. Accessing the property takes O(n) for the order by key
    /// and O(n log n) for other orders; each snapshot is created when the iteration reaches it.
    public var childSnapshots: some Sequence<DataSnapshot> & Sendable {
        ChildOrder.entries(of: node, by: index).lazy.map { [ref, index, seq] entry in
            let childRef = DatabaseReference(owner: ref.owner, path: ref.path.appending(entry.key))
            return DataSnapshot(ref: childRef, node: entry.node, index: index, seq: seq.map { Int64($0) })
        }
    }

    private func checked(_ text: String, _ function: String) -> Path {
        Misuse.check(function) { () throws(InvalidArgument) in try PathText.path(text) }
    }
}

extension DataSnapshot: CustomStringConvertible {
    /// The path, and the value as JSON.
    public var description: String {
        "\(ref.path): \(String(decoding: JSONWriter.encode(node, form: .export), as: UTF8.self))"
    }
}

/// The children of a node in the order of a query.
enum ChildOrder {
    static func entries(of node: Node, by index: Query.Index) -> [ChildMap.Entry] {
        guard case .branch(let branch) = node else { return [] }
        let entries = Array(branch.children)
        if index == .key { return entries }
        let query = Query(index: index)
        // The children are sorted by key, and sorting is stable: children with equal values remain in that order.
        let ranked = entries.map { (value: query.indexValue(of: $0.node), entry: $0) }
        if ranked.allSatisfy({ $0.value.isNull }) { return entries }
        return ranked.sorted { ValueOrder.compare($0.value, $1.value) < 0 }.map(\.entry)
    }
}

/// A Foundation enumerator over a Swift iterator.
final class ClosureEnumerator: NSEnumerator {
    private var iterator: any IteratorProtocol

    init(_ iterator: some IteratorProtocol) { self.iterator = iterator }

    override func nextObject() -> Any? { iterator.next() }
}
