internal import Foundation
internal import Tree

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
