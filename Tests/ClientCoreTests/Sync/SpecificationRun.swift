import Testing
import Tree
import Wire

@testable import ClientCore

/// Runs a case on a sync tree and collects the deviations.
struct SpecificationRun {
    private let tree = SyncTree()
    private var lastRegistration: UInt64 = 0
    private var lastWrite: Int64 = -1
    private var listeners: [(registration: Registration, callback: Int64?)] = []
    /// The queries for the tags that the case uses.
    private var tags: [Int64: QuerySpec] = [:]
    private var listens: [QuerySpec: ListenTag?] = [:]
    private let base: Path

    init(at base: Path) { self.base = base }

    private(set) var failures: [String] = []

    mutating func play(_ test: SpecificationCase) throws {
        for (number, step) in test.steps.enumerated() {
            let effects = try play(step)
            let raised = effects.events.map { EventComparison.Raised(listener: $0.registration, event: event($0)) }
            let isBeginning = step.type == "listen" || step.type == "unlisten"
            let comparison = EventComparison(raised, with: step.events, isBeginning: isBeginning)
            failures += comparison.faults.map { "step \(number) (\(step.type) \(step.path)): \($0)" }
            follow(effects.listens, step.listens, "step \(number)")
        }
    }

    private mutating func play(_ step: SpecificationCase.Step) throws -> SyncEffects {
        switch step.type {
        case "listen":
            lastRegistration += 1
            let id = RegistrationID(rawValue: lastRegistration)
            let registration = Registration(id: id, spec: step.spec, kinds: [.value, .allChildren])
            listeners.append((registration, step.callback))
            if let tag = step.tag { tags[tag] = step.spec }
            return tree.add(registration)
        case "unlisten":
            let index = listeners.firstIndex { $0.callback == step.callback && $0.registration.spec == step.spec }
            return tree.remove(listeners.remove(at: try #require(index)).registration)
        case "set", "update":
            lastWrite += 1
            let content: PendingWrite.Content =
                step.type == "set"
                ? .overwrite(try SpecificationCase.node(step.data))
                : .merge(try SpecificationCase.changes(step.data))
            let write = PendingWrite(id: WriteID(rawValue: lastWrite), path: step.path, content: content)
            return tree.apply(write, estimate: content, isVisible: step.isVisible)
        case "serverUpdate":
            let node = try SpecificationCase.node(step.data)
            return tree.applyServer(node, at: step.path, tag: tag(of: step))
        case "serverMerge":
            return tree.applyServer(
                try SpecificationCase.changes(step.data), at: step.path, tag: tag(of: step))
        case "ackUserWrite":
            return tree.acknowledge(WriteID(rawValue: try #require(step.write)), isRefused: step.reverts)
        case "listenComplete":
            return tree.completeListen(step.spec, tag: tag(of: step))
        case "suppressWarning": return SyncEffects()
        default:
            failures.append("unknown step \(step.type)")
            return SyncEffects()
        }
    }

    /// Returns the tree's tag for a step. A tag that is not in use belongs to a listen that has ended.
    private func tag(of step: SpecificationCase.Step) -> ListenTag? {
        guard let tag = step.tag else { return nil }
        guard let spec = tags[tag], let inUse = listens[spec] else { return ListenTag(rawValue: -1) }
        return inUse
    }

    private func event(_ event: DataEvent) -> SpecificationCase.Event {
        let path = listeners.first { $0.registration.id == event.registration }?.registration.spec.path ?? .root
        let (type, name, previous): (String, Key?, Key?) =
            switch event.kind {
            case .value: ("value", nil, nil)
            case .childAdded(let key, let previous): ("child_added", key, previous)
            case .childChanged(let key, let previous): ("child_changed", key, previous)
            case .childMoved(let key, let previous): ("child_moved", key, previous)
            case .childRemoved(let key): ("child_removed", key, nil)
            }
        return SpecificationCase.Event(
            path: path, type: type, name: name?.text, previous: previous?.text, data: event.node)
    }

    /// Checks that each query is listened to once, and that only active listens end.
    private mutating func follow(_ changes: [ListenChange], _ expected: [String]?, _ step: String) {
        var requested: [String] = []
        for change in changes {
            switch change {
            case .start(let spec, let tag):
                if listens.updateValue(tag, forKey: spec) != nil { failures.append("\(step): \(spec.path) twice") }
                requested.append("+\(spec.path.relative(to: base))" + (tag == nil ? "" : " tagged"))
            case .stop(let spec, _):
                if listens.removeValue(forKey: spec) == nil { failures.append("\(step): \(spec.path) was not begun") }
                requested.append("-\(spec.path.relative(to: base))" + (spec.loadsAllData ? "" : " tagged"))
            }
        }
        if let expected, expected != requested { failures.append("\(step): asks for \(requested), not \(expected)") }
    }
}
