import Runtime
import Synchronization
import Tree

/// The pages of all trees of a program: which of them are in memory, and which are evicted if memory is short. Any
/// thread.
///
/// A page that is read is added to a ring, around which a hand moves (the clock algorithm). A page that was used since
/// the hand last passed it remains for another round; an unused page is evicted.
final class TreePages: PageKeeper {
    private struct Ring: Sendable {
        var pages: [Page] = []
        var hand = 0
    }

    private let file: PageFile
    private let total: MemoryTotal
    private let ring = Mutex(Ring())
    private let bytes = Atomic<Int>(0)
    /// Bytes that were in pages and now belong to trees, and have not been counted there yet.
    private let loose = Atomic<Int>(0)
    private let onLoose: @Sendable () -> Void
    private let reads = Counter()
    private let writes = Counter()

    /// The fraction of the budget that pages may take even if everything else takes the whole budget.
    private static let leastShare = 8
    /// The fraction of the budget that may be uncounted in trees before namespaces are counted.
    private static let mostLoose = 32
    /// Maximum number of pages that a thread checks for eviction after reading one; other threads check the rest.
    private static let mostLookedAt = 64

    /// - Parameters:
    ///   - total: the bytes of trees, pages included, and their budget.
    ///   - onLoose: requests a count of the namespaces with pages, because many bytes of these now belong to their
    ///     trees. Called on any thread.
    init(_ file: PageFile, _ total: MemoryTotal, onLoose: @escaping @Sendable () -> Void = {}) {
        self.file = file
        self.total = total
        self.onLoose = onLoose
    }

    var facts: PageFacts {
        PageFacts(
            bytesInMemory: bytes.load(ordering: .relaxed), bytesInFile: Int(file.usedBytes), reads: reads.current,
            writes: writes.current)
    }

    /// Whether the file stores pages.
    var hasRoom: Bool { file.hasRoom }

    // MARK: PageKeeper

    func keep(_ bytes: UnsafeRawBufferPointer) -> PageLocation? {
        guard let location = file.write(bytes) else { return nil }
        writes.add()
        return location
    }

    func withBytes<Result>(at location: PageLocation, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        reads.add()
        do throws(PageFileError) {
            return try file.withBytes(at: location, body)
        } catch {
            fail("\(error)")
        }
    }

    func free(_ location: PageLocation) { file.free(location) }

    func cameIn(_ page: Page) {
        count(page.heapBytes)
        ring.withLock { $0.pages.append(page) }
        if isOver { takeOut(mostLookedAt: Self.mostLookedAt) }
    }

    func wentOut(bytes: Int) { count(-bytes) }

    func cameLoose(bytes: Int) {
        self.bytes.wrappingAdd(-bytes, ordering: .relaxed)
        let (before, now) = loose.wrappingAdd(bytes, ordering: .relaxed)
        let most = total.budget / Self.mostLoose
        if before < most, now >= most { onLoose() }
    }

    /// Removes the uncounted bytes from the total when namespaces are counted.
    func settleLoose() { total.add(-loose.exchange(0, ordering: .relaxed)) }

    func fail(_ reason: String) -> Never { file.end(reason) }

    // MARK: Eviction

    /// Evicts pages while trees exceed the budget and pages take more than their minimum share.
    func makeRoom() {
        var left = 2 * ring.withLock { $0.pages.count }
        while isOver, left > 0 {
            takeOut(mostLookedAt: Self.mostLookedAt)
            left -= Self.mostLookedAt
        }
    }

    private var isOver: Bool { total.isOver && bytes.load(ordering: .relaxed) > total.budget / Self.leastShare }

    private func count(_ change: Int) {
        bytes.wrappingAdd(change, ordering: .relaxed)
        total.add(change)
    }

    private func takeOut(mostLookedAt: Int) {
        // Freed after the lock is released.
        var gone: [Page.Content] = []
        var looseBytes = 0
        ring.withLock { ring in
            for _ in 0..<mostLookedAt where isOver && !ring.pages.isEmpty {
                if ring.hand >= ring.pages.count { ring.hand = 0 }
                let page = ring.pages[ring.hand]
                switch page.leave() {
                case .stays:
                    ring.hand += 1
                    continue
                case .left(let content):
                    gone.append(content)
                    count(-page.heapBytes)
                case .cameLoose(let content):
                    gone.append(content)
                    looseBytes += page.heapBytes
                case .isClosed: break
                }
                ring.pages.swapAt(ring.hand, ring.pages.count - 1)
                ring.pages.removeLast()
            }
        }
        if looseBytes > 0 { cameLoose(bytes: looseBytes) }
    }
}
