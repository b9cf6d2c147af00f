import LogStore
import Runtime
import Tree

/// What the trees of a namespace's lanes take of memory beside the gateway's own one, and how they leave it where that is too much.
///
/// Each part counts once that several have, and not those that the gateway's own tree has, too. Lanes that are at the head cost nothing. Counting
/// and packing take a small part of the time.
struct LaneTrees {
    private var room: (any TreeRoom)?
    private var nextLook: Milliseconds = 0
    private var nextPack: Milliseconds = 0

    private static let pause: Milliseconds = 2_000
    /// Between two looks there is so many times as long as one takes, at least.
    private static let restFactor: Milliseconds = 16
    /// A thread packs for so long at a time: what it has packed stays.
    private static let slice: Milliseconds = 500
    /// For how long a page file is left alone that had no room.
    private static let pauseWhenFull: Milliseconds = 60_000

    /// There may be much more to count than there was a moment ago.
    mutating func hurry() { nextLook = 0 }

    /// Looks what there is, now and then.
    ///
    /// - Parameters:
    ///   - trees: those of the lanes that are not the gateway's.
    ///   - gateway: the gateway's own one; null where it isn't known.
    ///   - now: monotonic milliseconds.
    ///   - make: makes room for them.
    /// - Returns: trees that take the place of others, by the identity of these; nil where nothing changes.
    mutating func look(
        _ trees: () -> [Node], gateway: () -> Node, now: () -> Milliseconds = { Clock.monotonicMilliseconds },
        in make: () -> any TreeRoom
    ) -> [ObjectIdentifier: Node]? {
        let start = now()
        guard start >= nextLook else { return nil }
        defer {
            let end = now()
            nextLook = end + max(Self.pause, Self.restFactor * (end - start))
        }
        var seen: Set<ObjectIdentifier> = []
        // What is no branch takes next to nothing.
        let own = trees().filter { $0.identity.map { seen.insert($0).inserted } ?? false }
        guard !own.isEmpty else {
            room = nil
            return nil
        }
        let room = room ?? make()
        self.room = room
        let gateway = gateway()
        let bytes = Node.heapBytes(of: own, besides: gateway)
        room.takes(bytes: bytes)
        guard bytes >= room.leastBytes, start >= nextPack else { return nil }
        let end = now() + Self.slice
        guard var packer = room.packer(until: end) else { return nil }
        let packed = packer.pack(own, besides: gateway)
        if packer.hasEnded, now() < end { nextPack = start + Self.pauseWhenFull }
        room.takes(bytes: Node.heapBytes(of: packed, besides: gateway))
        return Dictionary(zip(own.compactMap(\.identity), packed)) { first, _ in first }
    }
}
