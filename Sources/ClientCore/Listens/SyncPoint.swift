import Tree
import Wire

/// A node of the tree of paths that have listeners or a known server value, including the paths above those.
final class SyncPoint {
    let path: Path
    /// Nil for the root, and for a node that was removed with all above it.
    private(set) weak var parent: SyncPoint?
    var children: [Key: SyncPoint] = [:]

    /// The server's whole value. Set only if no node above has one.
    var known: Node?
    /// The log position of `known`, if the server has sent it.
    var mark: LogMark?
    /// The views in the order in which they were added.
    private(set) var views: [View] = []
    /// Finds the views that a change concerns, if there are many views.
    private(set) var index: ViewIndex?
    /// The number of views that select everything.
    private var defaultCount = 0
    private var lastView = 0
    /// Whether there is a listen for all data of the path.
    var isListening = false { didSet { asked = .waiting(nil) } }
    /// The state of the listen for all data of the path at the server.
    var asked = ListenState.waiting(nil) {
        didSet {
            answeredParts = []
            held = nil
        }
    }
    /// The paths of the parts that the server has sent before the whole data.
    var answeredParts: Set<Path> = []
    /// The changes that the server has sent for a resuming listen that is not complete yet; nil for other listens.
    var held: [ReportedChanges]?
    /// Whether the server sends all changes at this path.
    var isAnswered: Bool { if isListening, case .answered = asked { true } else { false } }

    /// The local value, including pending writes: the whole value, or the children that are completely known. Kept up
    /// to date while the path has listeners.
    var local = Node.null
    var isLocalComplete = false
    /// The orders of `local` that views have used.
    var orders: SharedOrders {
        let orders = madeOrders ?? SharedOrders()
        madeOrders = orders
        return orders
    }
    private(set) var madeOrders: SharedOrders?

    init(path: Path, parent: SyncPoint?) {
        self.path = path
        self.parent = parent
    }

    /// Whether there is a listener for all data of the path.
    var hasDefault: Bool { defaultCount > 0 }

    func view(of query: Query) -> View? { index.map { $0[query] } ?? views.first { $0.query == query } }

    /// - Parameter many: the number of views from which on they have an index.
    func addView(_ query: Query, many: Int) -> View {
        lastView += 1
        let view = View(query, number: lastView)
        views.append(view)
        if query.selectsAll { defaultCount += 1 }
        if let index {
            index.add(view)
        } else if views.count >= many {
            index = ViewIndex(views)
        }
        return view
    }

    func remove(_ view: View) {
        guard let offset = views.firstIndex(where: { $0 === view }) else { return }
        views.remove(at: offset)
        if view.query.selectsAll { defaultCount -= 1 }
        index?.remove(view)
        if views.isEmpty { index = nil }
        if let index {
            madeOrders?.drop { !index.has($0) }
        } else {
            madeOrders?.drop { unused in !views.contains { $0.query.index == unused } }
        }
    }

    /// The nearest node, here or above, whose whole value is known.
    var cover: SyncPoint? {
        var syncPoint: SyncPoint? = self
        while let here = syncPoint {
            if here.known != nil { return here }
            syncPoint = here.parent
        }
        return nil
    }

    /// Whether a listen for all data of a node above includes the data of this one.
    var isShadowed: Bool {
        var syncPoint = parent
        while let here = syncPoint {
            if here.hasDefault { return true }
            syncPoint = here.parent
        }
        return false
    }

    /// Whether the whole value of any child is known.
    var knowsChildren: Bool { children.values.contains { $0.known != nil } }

    /// Returns the node at a path below, and creates missing nodes on the way.
    func descend(_ path: Path) -> SyncPoint {
        var syncPoint = self
        for key in path.keys {
            if let below = syncPoint.children[key] {
                syncPoint = below
            } else {
                let below = SyncPoint(path: syncPoint.path.appending(key), parent: syncPoint)
                syncPoint.children[key] = below
                syncPoint = below
            }
        }
        return syncPoint
    }

    /// Returns the node to which keys lead, if there is one.
    func find(_ keys: ArraySlice<Key>) -> SyncPoint? {
        var syncPoint = self
        for key in keys {
            guard let below = syncPoint.children[key] else { return nil }
            syncPoint = below
        }
        return syncPoint
    }

    /// Returns the deepest existing node on a path, which may be this one.
    func nearest(_ path: Path) -> SyncPoint {
        var syncPoint = self
        for key in path.keys {
            guard let below = syncPoint.children[key] else { break }
            syncPoint = below
        }
        return syncPoint
    }

    /// Removes this node and those above it while they are unused.
    func prune() {
        var syncPoint = self
        while syncPoint.children.isEmpty, syncPoint.views.isEmpty, syncPoint.known == nil,
            let parent = syncPoint.parent,
            let key = syncPoint.path.last, parent.children[key] === syncPoint
        {
            parent.children[key] = nil
            syncPoint = parent
        }
    }

    /// The nodes strictly below, in the order of their keys, parents first.
    var allBelow: [SyncPoint] {
        children.keys.sorted().flatMap { key in children[key].map { [$0] + $0.allBelow } ?? [] }
    }

    /// Visits the nodes strictly below, parents first; skips the descendants if `body` returns false.
    func forEachBelow(_ body: (SyncPoint) -> Bool) {
        for syncPoint in children.values where body(syncPoint) { syncPoint.forEachBelow(body) }
    }
}
