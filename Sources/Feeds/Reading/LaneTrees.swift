import LogStore
import Runtime
import Tree

/// Counts the memory that the trees of a namespace's lanes take in addition to the gateway's own tree, and chooses the lanes that release their
/// trees if memory is short.
///
/// A node that several trees share counts once, and one that the gateway's own tree has does not count. Lanes at the head cost nothing. Counting
/// takes a small part of the time.
struct LaneTrees {
    /// A lane with trees of its own.
    struct Lane {
        /// The index of the lane among the reader's readings.
        let place: Int
        let trees: [Node]
        /// Whether the lane can do without them for now.
        let isIdle: Bool
    }

    private var room: (any TreeRoom)?
    private var nextLook: Milliseconds = 0
    /// How many idle lanes have been counted by themselves, so that all of them get their turn.
    private var counted = 0

    private static let pause: Milliseconds = 2_000
    /// Between two looks there is so many times as long as one takes, at least.
    private static let restFactor: Milliseconds = 16
    /// Idle lanes that one look counts by themselves, each with a walk over what it has.
    private static let mostCounted = 16

    /// There may be much more to count than there was a moment ago.
    mutating func hurry() { nextLook = 0 }

    /// Looks what there is, now and then.
    ///
    /// - Parameters:
    ///   - lanes: those whose trees are not the gateway's.
    ///   - gateway: the gateway's own one; null where it isn't known.
    ///   - now: monotonic milliseconds.
    ///   - make: makes room for them.
    /// - Returns: the places of idle lanes that have much in memory, in the order of `lanes`, where trees take more than they may. Their
    ///   trees do not count any more. Of many idle lanes each look takes some.
    mutating func look(
        _ lanes: () -> [Lane], gateway: () -> Node, now: () -> Milliseconds = { Clock.monotonicMilliseconds },
        in make: () -> any TreeRoom
    ) -> [Int] {
        let start = now()
        guard start >= nextLook else { return [] }
        defer {
            let end = now()
            nextLook = end + max(Self.pause, Self.restFactor * (end - start))
        }
        // What is no branch takes next to nothing.
        let lanes = lanes().filter { $0.trees.contains(where: \.isBranch) }
        guard !lanes.isEmpty else {
            room = nil
            return []
        }
        let room = room ?? make()
        self.room = room
        let gateway = gateway()
        // It compares addresses: the gateway's tree stays until the look is over, so that no other node gets one of them.
        defer { withExtendedLifetime(gateway) {} }
        let besides = HeapBesides(gateway)
        let bytes = besides.bytes(of: lanes.flatMap(\.trees))
        room.takes(bytes: bytes)
        guard bytes >= room.leastBytes, room.isOver else { return [] }
        // Lanes whose trees are mostly in pages stay, as new trees would take as much memory. Many idle lanes may take much together though
        // each takes little.
        let idleCount = max(1, lanes.count(where: \.isIdle))
        let leaving = nextIdle(lanes).filter { besides.bytes(of: $0.trees) >= room.leastBytes / idleCount }.map(\.place)
        if !leaving.isEmpty {
            let staying = lanes.filter { !leaving.contains($0.place) }
            room.takes(bytes: besides.bytes(of: staying.flatMap(\.trees)))
        }
        return leaving
    }

    /// The idle lanes whose turn it is, in the order of `lanes`.
    private mutating func nextIdle(_ lanes: [Lane]) -> [Lane] {
        let idle = lanes.filter(\.isIdle)
        guard idle.count > Self.mostCounted else { return idle }
        let first = counted % idle.count
        counted += Self.mostCounted
        return idle.enumerated().filter { index, _ in
            (index - first + idle.count) % idle.count < Self.mostCounted
        }.map(\.element)
    }
}
