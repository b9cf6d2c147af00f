import Tree
import Wire

/// A place that somebody listens to, or of which the server's value is known, and the way to such places.
final class Place {
    let path: Path
    /// Nil for the root, and for a place that was taken away with all above it.
    private(set) weak var parent: Place?
    var children: [Key: Place] = [:]

    /// The server's whole value. Only where no place above has its own.
    var known: Node?
    /// As of which entry that is, where the server has said so.
    var mark: LogMark?
    /// In the order in which they came.
    private(set) var views: [View] = []
    /// Finds those that a change concerns, where they are many.
    private(set) var index: ViewIndex?
    /// How many of the views select all.
    private var defaultCount = 0
    private var lastView = 0
    /// Whether the server is asked for all of the place.
    var isListening = false { didSet { asked = .waiting(nil) } }
    /// How far the server is with that.
    var asked = Asked.waiting(nil) {
        didSet {
            toldParts = []
            held = nil
        }
    }
    /// Where the server has begun to tell, before it has told all.
    var toldParts: Set<Path> = []
    /// What it has told of a listen that goes on where it was, and has not told all; nil for other listens.
    var held: [ToldChanges]?
    /// Whether the server tells all that changes here.
    var isTold: Bool { if isListening, case .answered = asked { true } else { false } }

    /// What is locally there, pending writes in it: the whole value, or the children that are completely known. Kept up
    /// to date while somebody listens here.
    var local = Node.null
    var isLocalComplete = false
    /// The orders of `local` that views have needed.
    var orders: SharedOrders {
        let orders = madeOrders ?? SharedOrders()
        madeOrders = orders
        return orders
    }
    private(set) var madeOrders: SharedOrders?

    init(path: Path, parent: Place?) {
        self.path = path
        self.parent = parent
    }

    /// Whether somebody listens to all of the place.
    var hasDefault: Bool { defaultCount > 0 }

    func view(of query: Query) -> View? { index.map { $0[query] } ?? views.first { $0.query == query } }

    /// - Parameter many: from how many views on they have an index.
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
        guard let place = views.firstIndex(where: { $0 === view }) else { return }
        views.remove(at: place)
        if view.query.selectsAll { defaultCount -= 1 }
        index?.remove(view)
        if views.isEmpty { index = nil }
        if let index {
            madeOrders?.drop { !index.has($0) }
        } else {
            madeOrders?.drop { unused in !views.contains { $0.query.index == unused } }
        }
    }

    /// The nearest place here or above whose whole value is known.
    var cover: Place? {
        var place: Place? = self
        while let here = place {
            if here.known != nil { return here }
            place = here.parent
        }
        return nil
    }

    /// Whether a listen to all of a place above brings all that is here.
    var isShadowed: Bool {
        var place = parent
        while let here = place {
            if here.hasDefault { return true }
            place = here.parent
        }
        return false
    }

    /// Whether any child's whole value is known.
    var knowsChildren: Bool { children.values.contains { $0.known != nil } }

    /// Makes the places on the way.
    func descend(_ path: Path) -> Place {
        var place = self
        for key in path.keys {
            if let below = place.children[key] {
                place = below
            } else {
                let below = Place(path: place.path.appending(key), parent: place)
                place.children[key] = below
                place = below
            }
        }
        return place
    }

    /// The place that keys lead to, if there is one.
    func find(_ keys: ArraySlice<Key>) -> Place? {
        var place = self
        for key in keys {
            guard let below = place.children[key] else { return nil }
            place = below
        }
        return place
    }

    /// The deepest place on the way, this one at least.
    func nearest(_ path: Path) -> Place {
        var place = self
        for key in path.keys {
            guard let below = place.children[key] else { break }
            place = below
        }
        return place
    }

    /// Takes this place and those above it away where they serve nobody.
    func prune() {
        var place = self
        while place.children.isEmpty, place.views.isEmpty, place.known == nil, let parent = place.parent,
            let key = place.path.last, parent.children[key] === place
        {
            parent.children[key] = nil
            place = parent
        }
    }

    /// The places strictly below, in the order of their keys, those above first.
    var allBelow: [Place] {
        children.keys.sorted().flatMap { key in children[key].map { [$0] + $0.allBelow } ?? [] }
    }

    /// Visits the places strictly below, those above first; goes no deeper where `body` returns false.
    func forEachBelow(_ body: (Place) -> Bool) {
        for place in children.values where body(place) { place.forEachBelow(body) }
    }
}
