import Engine
import Synchronization

/// The groups that have listeners. Shared by all loops.
final class ListenerGroups: Sendable {
    /// One for all, as a context of libcrypto for each would take a kilobyte of memory.
    private let hasher = EventHasher()
    private let groups = Mutex<[ListenerKey: ListenerGroup]>([:])

    /// Adds a loop's listener to its group, which is made if it is the first, and tells from which snapshot on the group hears.
    func join(
        _ key: ListenerKey, _ namespace: LiveNamespace, _ outlet: any GroupOutlet
    ) -> (ListenerGroup, Snapshot) {
        groups.withLock { groups in
            let group = groups[key] ?? ListenerGroup(key, namespace, hasher)
            groups[key] = group
            group.add(outlet)
            return (group, namespace.subscribe(group, at: key.path))
        }
    }

    func leave(_ group: ListenerGroup, _ outlet: any GroupOutlet) {
        groups.withLock { groups in
            guard group.remove(outlet) else { return }
            groups[group.key] = nil
            group.namespace.unsubscribe(group, at: group.key.path)
        }
    }

    var count: Int { groups.withLock { $0.count } }
}
