import Tree

/// Transactions in progress, by path.
final class TransactionTree {
    final class Point {
        let path: Path
        /// The transactions in the order in which they were begun.
        var queue: [Transaction] = []
        var children: [Key: Point] = [:]

        init(path: Path) { self.path = path }

        /// All transactions at and below the point, in the order in which they were begun.
        var all: [Transaction] {
            var found: [Transaction] = []
            collect(&found)
            return found.sorted { $0.id < $1.id }
        }

        /// Whether all transactions at and below the point are ready. If one was sent and is not answered, the check
        /// ends early, for any number of waiting ones.
        var isReady: Bool {
            queue.allSatisfy { $0.status == .ready } && children.values.allSatisfy(\.isReady)
        }

        private func collect(_ found: inout [Transaction]) {
            found += queue
            for child in children.values { child.collect(&found) }
        }

        /// Visits the topmost points at or below this one that have transactions.
        func forEachTopmost(_ body: (Point) -> Void) {
            if queue.isEmpty {
                for key in children.keys.sorted() { children[key]?.forEachTopmost(body) }
            } else {
                body(self)
            }
        }
    }

    private(set) var root = Point(path: .root)

    var isEmpty: Bool { root.queue.isEmpty && root.children.isEmpty }

    func add(_ transaction: Transaction) {
        var point = root
        for key in transaction.path.keys {
            let below = point.children[key] ?? Point(path: point.path.appending(key))
            point.children[key] = below
            point = below
        }
        point.queue.append(transaction)
    }

    func remove(_ transaction: Transaction) { Self.remove(transaction, transaction.path.keys[...], from: root) }

    private static func remove(_ transaction: Transaction, _ keys: ArraySlice<Key>, from point: Point) {
        guard let key = keys.first else { return point.queue.removeAll { $0 === transaction } }
        guard let below = point.children[key] else { return }
        remove(transaction, keys.dropFirst(), from: below)
        if below.queue.isEmpty, below.children.isEmpty { point.children[key] = nil }
    }

    /// Returns the topmost point on the way to the path that has transactions, or the path's own point; nil if there
    /// are none at, above or below it.
    func group(of path: Path) -> Point? {
        var point = root
        for key in path.keys {
            guard point.queue.isEmpty else { return point }
            guard let below = point.children[key] else { return nil }
            point = below
        }
        return point
    }

    /// Returns all transactions at, above and below the path, in the order in which they were begun.
    func overlapping(_ path: Path) -> [Transaction] {
        var found: [Transaction] = []
        var point = root
        for key in path.keys {
            found += point.queue
            guard let below = point.children[key] else { return found.sorted { $0.id < $1.id } }
            point = below
        }
        return (found + point.all).sorted { $0.id < $1.id }
    }
}
