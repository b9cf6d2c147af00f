/// Items by their ranges of one order. Finding those that overlap a range takes about the logarithm of the number of
/// items, plus the number of results.
///
/// A binary tree ordered by the ranges' low edges. Random weights, which decrease from parent to child, keep it
/// balanced with high probability; each point has the highest edge at and below it.
final class RangeTree<Item> {
    private final class Point {
        let range: OrderRange
        let number: Int
        let item: Item
        let weight: UInt64
        var left: Point?
        var right: Point?
        private(set) var highest: OrderRange.Edge?

        init(_ range: OrderRange, _ number: Int, _ item: Item, weight: UInt64) {
            self.range = range
            self.number = number
            self.item = item
            self.weight = weight
            highest = range.high
        }

        func isBefore(_ range: OrderRange, _ number: Int) -> Bool {
            let order = OrderRange.compareLows(self.range.low, range.low)
            return order == 0 ? self.number < number : order < 0
        }

        func settle() {
            highest = range.high
            for below in [left, right] {
                guard let below, OrderRange.compareHighs(highest, below.highest) < 0 else { continue }
                highest = below.highest
            }
        }
    }

    private var root: Point?
    private(set) var count = 0
    private var lastWeight: UInt64 = 0

    var isEmpty: Bool { root == nil }

    /// - Parameter number: the item's unique number.
    func insert(_ item: Item, _ number: Int, at range: OrderRange) {
        // SplitMix64, with an identical sequence in every run.
        lastWeight &+= 0x9E37_79B9_7F4A_7C15
        var weight = (lastWeight ^ (lastWeight >> 30)) &* 0xBF58_476D_1CE4_E5B9
        weight = (weight ^ (weight >> 27)) &* 0x94D0_49BB_1331_11EB
        let point = Point(range, number, item, weight: weight ^ (weight >> 31))
        root = Self.inserting(point, into: root)
        count += 1
    }

    /// Removes an item, which must have been inserted with this range.
    func remove(_ number: Int, at range: OrderRange) {
        root = root.flatMap { Self.removing(number, range, from: $0) }
        count -= 1
    }

    /// Visits the items whose ranges overlap this one, by their low edges.
    func forEach(overlapping range: OrderRange, _ body: (Item) -> Void) {
        if let root { Self.visit(root, range, body) }
    }

    private static func visit(_ point: Point, _ range: OrderRange, _ body: (Item) -> Void) {
        guard OrderRange.isInOrder(range.low, point.highest) else { return }
        if let left = point.left { visit(left, range, body) }
        guard OrderRange.isInOrder(point.range.low, range.high) else { return }
        if OrderRange.isInOrder(range.low, point.range.high) { body(point.item) }
        if let right = point.right { visit(right, range, body) }
    }

    // MARK: Changing

    private static func inserting(_ point: Point, into tree: Point?) -> Point {
        guard let tree else { return point }
        if point.weight > tree.weight {
            (point.left, point.right) = split(tree, before: point)
            point.settle()
            return point
        }
        if tree.isBefore(point.range, point.number) {
            tree.right = inserting(point, into: tree.right)
        } else {
            tree.left = inserting(point, into: tree.left)
        }
        tree.settle()
        return tree
    }

    private static func split(_ tree: Point?, before point: Point) -> (Point?, Point?) {
        guard let tree else { return (nil, nil) }
        if tree.isBefore(point.range, point.number) {
            let (left, right) = split(tree.right, before: point)
            tree.right = left
            tree.settle()
            return (tree, right)
        }
        let (left, right) = split(tree.left, before: point)
        tree.left = right
        tree.settle()
        return (left, tree)
    }

    private static func removing(_ number: Int, _ range: OrderRange, from tree: Point) -> Point? {
        if tree.number == number { return joined(tree.left, tree.right) }
        if tree.isBefore(range, number) {
            tree.right = tree.right.flatMap { removing(number, range, from: $0) }
        } else {
            tree.left = tree.left.flatMap { removing(number, range, from: $0) }
        }
        tree.settle()
        return tree
    }

    private static func joined(_ left: Point?, _ right: Point?) -> Point? {
        guard let left else { return right }
        guard let right else { return left }
        if left.weight > right.weight {
            left.right = joined(left.right, right)
            left.settle()
            return left
        }
        right.left = joined(left, right.left)
        right.settle()
        return right
    }
}
