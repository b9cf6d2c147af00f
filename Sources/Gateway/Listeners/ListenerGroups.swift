import Engine
import Synchronization

/// The groups that have listeners.
final class ListenerGroups: Sendable {
    private let groups = Mutex<[ListenerKey: ListenerGroup]>([:])

    /// Adds a loop's listener to its group, which is made if it is the first, and tells from which snapshot on the group hears.
    func join(_ key: ListenerKey, _ namespace: LiveNamespace, _ link: LoopLink) -> (ListenerGroup, Snapshot) {
        groups.withLock { groups in
            let group = groups[key] ?? ListenerGroup(key, namespace)
            groups[key] = group
            group.add(link)
            return (group, namespace.subscribe(group, at: key.path))
        }
    }

    func leave(_ group: ListenerGroup, _ link: LoopLink) {
        groups.withLock { groups in
            guard group.remove(link) else { return }
            groups[group.key] = nil
            group.namespace.unsubscribe(group, at: group.key.path)
        }
    }

    var groupCount: Int { groups.withLock { $0.count } }
}
