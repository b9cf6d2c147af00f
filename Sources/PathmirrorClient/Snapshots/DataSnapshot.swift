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
    /// The entry of the gateway's log as of which this is: what the place held when that entry, and no later one, had been
    /// done. What came from disk may be a little newer than that, never older.
    ///
    /// Nil where the snapshot holds something that only this client has (a write that is not answered, an estimate), where
    /// it is not complete, and where the server is no Pathmirror gateway.
    public let seq: Int?

    init(ref: DatabaseReference, node: Node, index: Query.Index, seq: Int64? = nil) {
        self.seq = seq.map { Int($0) }
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
        return DataSnapshot(ref: childRef, node: node[relative], index: index, seq: seq.map { Int64($0) })
    }

    /// How many children there are.
    public var childrenCount: UInt { UInt(node.childCount) }

    /// The children's snapshots (`DataSnapshot`), in the order of the query that the snapshot came from.
    public var children: NSEnumerator {
        let snapshots = childSnapshots.makeIterator()
        return ClosureEnumerator(snapshots)
    }

    /// The children's snapshots, in the order of the query that the snapshot came from. To ask for it takes O(n) by key and
    /// O(n log n) by another order; each snapshot is made when it is reached.
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
    /// The place and the value as JSON.
    public var description: String {
        "\(ref.path): \(String(decoding: JSONWriter.encode(node, form: .export), as: UTF8.self))"
    }
}

/// A node's children in the order of a query.
enum ChildOrder {
    static func entries(of node: Node, by index: Query.Index) -> [ChildMap.Entry] {
        guard case .branch(let branch) = node else { return [] }
        let entries = Array(branch.children)
        if index == .key { return entries }
        let query = Query(index: index)
        // They come by key, and sorting is stable: equal values stay so.
        let ranked = entries.map { (value: query.indexValue(of: $0.node), entry: $0) }
        if ranked.allSatisfy({ $0.value.isNull }) { return entries }
        return ranked.sorted { ValueOrder.compare($0.value, $1.value) < 0 }.map(\.entry)
    }
}

/// Foundation's enumerator over a Swift iterator.
final class ClosureEnumerator: NSEnumerator {
    private var iterator: any IteratorProtocol

    init(_ iterator: some IteratorProtocol) { self.iterator = iterator }

    override func nextObject() -> Any? { iterator.next() }
}
