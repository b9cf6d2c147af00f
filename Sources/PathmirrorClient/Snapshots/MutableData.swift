public import Foundation
internal import Tree

/// The value that a transaction changes. Only for use within the transaction's block; not Sendable.
public final class MutableData {
    /// The whole value of a transaction, shared by all its parts.
    final class Whole {
        var node: Node
        /// The error of the first value that could not be stored.
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

    /// Creates empty data without a path.
    public convenience init() { self.init(Whole(.null, at: .root)) }

    private var node: Node { whole.node[relative] }

    /// The last key of the path, or nil for the root.
    public var key: String? { whole.path.appending(relative).last?.text }

    /// The value, with the types of `DataSnapshot.value`. A value that cannot be stored (a key with a `.`, a number that is not
    /// finite, …) ends the transaction with an error.
    public var value: Any? {
        get { node.foundationValue() }
        set { change { path throws(InvalidArgument) in try NodeReader.node(of: newValue, at: path) } }
    }

    /// The priority: a number, a string, or `NSNull` if there is none. It can only be set where there is a value.
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

    /// Returns whether the value has children and is not a leaf.
    public func hasChildren() -> Bool { node.isBranch }

    /// Returns whether there is a value at a path below.
    public func hasChild(atPath path: String) -> Bool { !node[checked(path, "hasChild(atPath:)")].isNull }

    /// Returns the part at a path below. Changing it changes the whole value.
    public func childData(byAppendingPath path: String) -> MutableData {
        MutableData(whole, at: relative.appending(checked(path, "childData(byAppendingPath:)")))
    }

    /// The number of children.
    public var childrenCount: UInt { UInt(node.childCount) }

    /// The current children (`MutableData`), by priority and key.
    public var children: NSEnumerator {
        let entries = ChildOrder.entries(of: node, by: .priority)
        let parts = entries.lazy.map { [whole, relative] in MutableData(whole, at: relative.appending($0.key)) }
        return ClosureEnumerator(parts.makeIterator())
    }

    private func checked(_ text: String, _ function: String) -> Path {
        Misuse.check(function) { () throws(InvalidArgument) in try PathText.path(text) }
    }
}

/// The decision of a transaction's block.
public final class TransactionResult {
    /// The new value, or nil to change nothing.
    let data: MutableData?

    private init(_ data: MutableData?) { self.data = data }

    /// Creates a result that changes nothing, like `abort()`.
    public convenience init() { self.init(nil) }

    /// Returns the result to write a value, if the server still has the value that the block received.
    public static func success(withValue value: MutableData) -> TransactionResult { TransactionResult(value) }

    /// Returns the result to change nothing.
    public static func abort() -> TransactionResult { TransactionResult(nil) }
}
