/// The steps in which an entry is applied. Its changes happen together, regardless of the order in which they are written:
/// values come first, then removals, then priorities. So a node keeps its priority if its last child is removed while another
/// one is added, and a priority applies to a node that the same entry creates.
///
/// All code that applies entries follows this order: committers, followers, replays, mirrors, verification. In SQL it is
/// `pathmirror.application_step`.
public enum ApplicationStep: Int, Sendable, CaseIterable {
    case values, removals, priorities
}

extension Change {
    /// The step of its entry in which the change is applied.
    public var step: ApplicationStep {
        if path.namesPriority { return .priorities }
        return value.isNull ? .removals : .values
    }
}

/// The order in which an entry's changes are applied.
public enum ApplicationOrder {
    /// Returns the changes ordered by their steps. The order within one step is kept. It has no effect, because none of an
    /// entry's paths is below another.
    public static func sorted(_ changes: [Change]) -> [Change] {
        guard !isSorted(changes) else { return changes }
        return ApplicationStep.allCases.flatMap { step in changes.filter { $0.step == step } }
    }

    private static func isSorted(_ changes: [Change]) -> Bool {
        zip(changes, changes.dropFirst()).allSatisfy { $0.step.rawValue <= $1.step.rawValue }
    }
}

/// Counts the passes over the parts of a bulk entry, so that no changes must be kept in memory: one pass for values, and more
/// passes if there are removals or priorities.
public struct PartPasses: Sendable {
    /// The step of the current pass.
    public private(set) var step = ApplicationStep.values
    private var hasRemovals = false
    private var hasPriorities = false

    public init() {}

    /// Returns the changes of a part that belong to the current pass.
    public mutating func select(_ part: [Change]) -> [Change] {
        if step == .values {
            for change in part {
                switch change.step {
                case .values: break
                case .removals: hasRemovals = true
                case .priorities: hasPriorities = true
                }
            }
        }
        return part.filter { $0.step == step }
    }

    /// Ends a pass after the last part. Returns whether another pass over all parts is needed.
    public mutating func beginNextPass() -> Bool {
        if step == .values, hasRemovals {
            step = .removals
        } else if step != .priorities, hasPriorities {
            step = .priorities
        } else {
            return false
        }
        return true
    }
}

/// Applies a bulk entry: paths that it clears get the values of its parts, all at once. Nodes above cleared paths keep their
/// priorities if the parts set values there.
///
/// Pass every part to `take`, and start again with the first part as long as `beginNextPass` returns true.
public struct BulkApplication: Sendable {
    /// The tree so far. After the last pass, this is the tree after the entry.
    public private(set) var root: Node
    /// Cleared paths that have not received a value yet.
    private var cleared: [Path]
    private var passes = PartPasses()

    public init(_ own: [Change], to root: Node) {
        self.root = root
        cleared = own.filter { $0.step == .removals }.map(\.path)
        for change in ApplicationOrder.sorted(own) where change.step != .removals { apply(change) }
    }

    /// Applies the changes of a part that belong to the current pass. Parts must come in the order of the log.
    public mutating func take(_ part: [Change]) {
        for change in passes.select(part) {
            if passes.step == .values { makeRoom(for: change.path) }
            apply(change)
        }
    }

    /// Pages out the tree that was built so far.
    public mutating func pageOut(with pager: inout TreePager) { root = pager.pageOut(root) }

    /// Ends a pass over all parts. Returns true if another pass is needed.
    public mutating func beginNextPass() -> Bool {
        if passes.step == .values {
            // These paths have received no value, so they are removals.
            for path in cleared { root = root.replacing(path, with: .null) }
            cleared = []
        }
        return passes.beginNextPass()
    }

    /// Clears the paths that contain the path of a value. A leaf holds each such path until the value is set, which keeps its
    /// ancestors alive.
    private mutating func makeRoom(for path: Path) {
        guard !cleared.isEmpty else { return }
        for ancestor in cleared where ancestor.contains(path) { root = root.replacing(ancestor, with: .bool(false)) }
        cleared.removeAll { $0.contains(path) }
    }

    private mutating func apply(_ change: Change) { root = root.replacing(change.path, with: change.value) }
}
