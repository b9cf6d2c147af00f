/// What an entry means: its changes happen together, whatever order they are written in. Values come first, then what is
/// removed, then priorities. So a node whose last child goes while another comes keeps its priority, and a priority finds
/// the node that the same entry makes.
///
/// The one rule for all who apply entries: committers, followers, replays, mirrors, verification; in SQL it is
/// `pathmirror.application_step`.
public enum ApplicationStep: Int, Sendable, CaseIterable {
    case values, removals, priorities
}

extension Change {
    /// When of its entry it is applied.
    public var step: ApplicationStep {
        if path.namesPriority { return .priorities }
        return value.isNull ? .removals : .values
    }
}

/// The order in which an entry's changes are applied.
public enum ApplicationOrder {
    /// The changes by their steps. Within one step no order can matter, as none of an entry's places lies below another;
    /// it stays as it was.
    public static func sorted(_ changes: [Change]) -> [Change] {
        guard !isSorted(changes) else { return changes }
        return ApplicationStep.allCases.flatMap { step in changes.filter { $0.step == step } }
    }

    private static func isSorted(_ changes: [Change]) -> Bool {
        zip(changes, changes.dropFirst()).allSatisfy { $0.step.rawValue <= $1.step.rawValue }
    }
}

/// Goes through the parts of a bulk entry as often as the steps need it, so that nothing has to be kept meanwhile: once for
/// values, and again where there are removals or priorities.
public struct PartPasses: Sendable {
    /// What is applied now.
    public private(set) var step = ApplicationStep.values
    private var hasRemovals = false
    private var hasPriorities = false

    public init() {}

    /// The changes of a part whose turn it is.
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

    /// After the last part: whether all of them have to be gone through again.
    public mutating func goesOn() -> Bool {
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

/// Applies a bulk entry: what it clears is replaced by what its parts bring, at once. Nodes above what is cleared keep
/// their priorities where something comes in its place.
///
/// Give `take` every part, and begin again with the first as long as `goesOn` says so.
public struct BulkApplication: Sendable {
    /// The tree so far; after the last pass, the tree after the entry.
    public private(set) var root: Node
    /// Places that are cleared and that nothing has come to yet.
    private var cleared: [Path]
    private var passes = PartPasses()

    public init(_ own: [Change], to root: Node) {
        self.root = root
        cleared = own.filter { $0.step == .removals }.map(\.path)
        for change in ApplicationOrder.sorted(own) where change.step != .removals { apply(change) }
    }

    /// Applies what of a part this pass is for. Parts come in the order of the log.
    public mutating func take(_ part: [Change]) {
        for change in passes.select(part) {
            if passes.step == .values { makeRoom(for: change.path) }
            apply(change)
        }
    }

    /// Puts what it has made so far into pages.
    public mutating func pack(with packer: inout TreePacker) { root = packer.pack(root) }

    /// Ends a pass over all parts. True when they have to be gone over once more.
    public mutating func goesOn() -> Bool {
        if passes.step == .values {
            // Nothing came: then they are plain removals.
            for path in cleared { root = root.replacing(path, with: .null) }
            cleared = []
        }
        return passes.goesOn()
    }

    /// Clears the places that the first value comes to. A leaf stands there until then, which keeps what is above alive.
    private mutating func makeRoom(for path: Path) {
        guard !cleared.isEmpty else { return }
        for place in cleared where place.contains(path) { root = root.replacing(place, with: .bool(false)) }
        cleared.removeAll { $0.contains(path) }
    }

    private mutating func apply(_ change: Change) { root = root.replacing(change.path, with: change.value) }
}
