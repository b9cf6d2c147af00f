import Engine
import Synchronization
public import Tree

/// Decides what an identity may read and write. Shared by all connections; the rules may be exchanged while it is used.
public protocol AccessRules: Sendable {
    func mayRead(_ path: Path, query: Query?, root: Node, auth: Node, now: Int64) -> Bool
    /// Nil to allow, or why not.
    func writeDenial(_ changes: [Change], before: Node, after: Node, auth: Node, now: Int64) -> String?
    /// Whether a query by this index at this path may be answered over REST.
    func isIndexed(_ index: Query.Index, at path: Path) -> Bool
    /// Whether what may be read depends on the data, so that a change of data can end a stream.
    var readsDependOnData: Bool { get }
    /// The rules as they were written, for administrators.
    var source: [UInt8] { get }
}

/// Everybody may do everything: what `pathmirror dev` starts with.
public struct OpenRules: AccessRules {
    public init() {}
    public func mayRead(_ path: Path, query: Query?, root: Node, auth: Node, now: Int64) -> Bool { true }
    public func writeDenial(_ changes: [Change], before: Node, after: Node, auth: Node, now: Int64) -> String? { nil }
    public func isIndexed(_ index: Query.Index, at path: Path) -> Bool { true }
    public var readsDependOnData: Bool { false }
    public var source: [UInt8] { Array("{\"rules\":{\".read\":true,\".write\":true}}".utf8) }
}

/// Nobody may do anything: what `pathmirror serve` starts with.
public struct ClosedRules: AccessRules {
    public init() {}
    public func mayRead(_ path: Path, query: Query?, root: Node, auth: Node, now: Int64) -> Bool { false }
    public func writeDenial(_ changes: [Change], before: Node, after: Node, auth: Node, now: Int64) -> String? {
        "Permission denied"
    }
    public func isIndexed(_ index: Query.Index, at path: Path) -> Bool { false }
    public var readsDependOnData: Bool { false }
    public var source: [UInt8] { Array("{\"rules\":{\".read\":false,\".write\":false}}".utf8) }
}

/// Judges one identity's writes, inside the commit.
struct RulesGuard: WriteGuard {
    let rules: any AccessRules
    let auth: Node

    func denial(of changes: [Change], before: Node, after: Node, timestamp: Int64) -> String? {
        rules.writeDenial(changes, before: before, after: after, auth: auth, now: timestamp)
    }
}
