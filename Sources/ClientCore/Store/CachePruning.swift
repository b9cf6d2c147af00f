/// When the cache is too large, and how much of it goes at once.
public struct CachePruning: Sendable {
    /// 10 MB.
    public static let defaultBudget = 10 << 20
    /// What a budget may be: 1 to 100 MB.
    public static let budgets = 1 << 20...100 << 20
    /// More queries that nobody listens to are not remembered.
    static let mostInactive = 1000

    /// How many bytes of server data may be kept; within `budgets`.
    public var budget: Int {
        didSet {
            budget = Self.clamped(budget)
            threshold = budget
        }
    }
    /// Where nothing could be pruned, it is not tried again before there is a tenth of the budget more.
    private var threshold: Int

    public init(budget: Int) {
        self.budget = Self.clamped(budget)
        threshold = self.budget
    }

    private static func clamped(_ budget: Int) -> Int {
        min(max(budget, budgets.lowerBound), budgets.upperBound)
    }

    func isNeeded(bytes: Int, inactive: Int) -> Bool { bytes > threshold || inactive > Self.mostInactive }

    func isEnough(bytes: Int, inactive: Int) -> Bool { bytes <= budget && inactive <= Self.mostInactive }

    /// How many of the inactive queries go at once: a fifth, and all that are too many.
    func count(ofInactive inactive: Int) -> Int {
        max((inactive + 4) / 5, inactive - Self.mostInactive)
    }

    /// There is something to prune that there was not.
    mutating func queryBecameInactive() { threshold = budget }

    mutating func didPrune(to bytes: Int) { threshold = max(budget, bytes + budget / 10) }
}
