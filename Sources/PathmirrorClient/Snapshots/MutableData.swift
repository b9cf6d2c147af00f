public import Foundation
internal import Tree

/// The value that a transaction changes. For use within its block only; not Sendable.
public final class MutableData {
    /// The whole value of a transaction, which all parts of it share.
    final class Whole {
        var node: Node
        /// The first value that could not be stored.
        var error: InvalidArgument?
        let path: Path

        init(_ node: Node, at path: Path) {
            self.node = node
            self.path = path
        }
    }

    let whole: Whole
    private let relative: Path

    init(_ whole: Whole, at relative: Path = .root) {
        self.whole = whole
        self.relative = relative
    }

    /// Empty data of no place.
    public convenience init() { self.init(Whole(.null, at: .root)) }

    private var node: Node { whole.node[relative] }

    /// The last key of the place; nil for the root.
    public var key: String? { whole.path.appending(relative).last?.text }

    /// The value, of the types that `DataSnapshot.value` has. What can't be stored (a key with a `.`, a number that is not
    /// finite, …) ends the transaction with an error.
    public var value: Any? {
        get { node.foundationValue() }
        set { change { path throws(InvalidArgument) in try NodeReader.node(of: newValue, at: path) } }
    }

    /// The priority: a number, a string, or `NSNull` where there is none. It can be set where there is a value.
    public var priority: Any? {
        get { node.priority.foundationValue() }
        set {
            let node = node
            change { path throws(InvalidArgument) in
                node.withPriority(try NodeReader.priority(newValue, at: path))
            }
        }
    }

    private func change(_ body: (Path) throws(InvalidArgument) -> Node) {
        do {
            whole.node = whole.node.replacing(relative, with: try body(whole.path.appending(relative)))
        } catch {
            if whole.error == nil { whole.error = error }
        }
    }

    /// Whether there are children, and not just a leaf.
    public func hasChildren() -> Bool { node.isBranch }

    /// Whether there is anything at the path below.
    public func hasChild(atPath path: String) -> Bool { !node[checked(path, "hasChild(atPath:)")].isNull }

    /// The part at the path below. Changes of it are changes of the whole.
    public func childData(byAppendingPath path: String) -> MutableData {
        MutableData(whole, at: relative.appending(checked(path, "childData(byAppendingPath:)")))
    }

    /// How many children there are.
    public var childrenCount: UInt { UInt(node.childCount) }

    /// The children (`MutableData`), by priority and key, as they are when this is called.
    public var children: NSEnumerator {
        let entries = ChildOrder.entries(of: node, by: .priority)
        let parts = entries.lazy.map { [whole, relative] in MutableData(whole, at: relative.appending($0.key)) }
        return ClosureEnumerator(parts.makeIterator())
    }

    private func checked(_ text: String, _ function: String) -> Path {
        Misuse.check(function) { () throws(InvalidArgument) in try PathText.path(text) }
    }
}

/// What a transaction's block decides.
public final class TransactionResult {
    /// Nil for an end without a change.
    let data: MutableData?

    private init(_ data: MutableData?) { self.data = data }

    /// The same as `abort()`.
    public convenience init() { self.init(nil) }

    /// Write this value, if the server still has what the block was given.
    public static func success(withValue value: MutableData) -> TransactionResult { TransactionResult(value) }

    /// Change nothing.
    public static func abort() -> TransactionResult { TransactionResult(nil) }
}
