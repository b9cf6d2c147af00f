import Runtime
import Synchronization
import Tree

/// The pages of all trees of a program: which of them are in memory, and who goes when there is too much. Any thread.
///
/// A page that comes in is put into a ring, and a hand goes around it: what was used since it came by last stays for another round, what was
/// not goes.
final class TreePages: PageKeeper {
    private struct Ring: Sendable {
        var pages: [Page] = []
        var hand = 0
    }

    private let file: PageFile
    private let total: MemoryTotal
    private let ring = Mutex(Ring())
    private let bytes = Atomic<Int>(0)
    /// What was in pages and is in trees now, and has not been counted there.
    private let loose = Atomic<Int>(0)
    private let onLoose: @Sendable () -> Void
    private let reads = Counter()
    private let writes = Counter()

    /// What pages may take when the rest takes all of the budget: a part of it.
    private static let leastShare = 8
    /// What part of the budget may be loose until namespaces are counted.
    private static let mostLoose = 32
    /// How many pages who has just read one looks at in order to find some that may go; the rest is left to others.
    private static let mostLookedAt = 64

    /// - Parameters:
    ///   - total: what trees take, pages included, and what they may take.
    ///   - onLoose: has the namespaces counted that have pages, as much of these is in their trees now. Called on any thread.
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

    /// Whether the file takes pages.
    var hasRoom: Bool { file.hasRoom }

    // MARK: PageKeeper

    func keep(_ bytes: UnsafeRawBufferPointer) -> PagePlace? {
        guard let place = file.write(bytes) else { return nil }
        writes.add()
        return place
    }

    func withBytes<Result>(at place: PagePlace, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        reads.add()
        do throws(PageFileError) {
            return try file.withBytes(at: place, body)
        } catch {
            fail("\(error)")
        }
    }

    func free(_ place: PagePlace) { file.free(place) }

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

    /// What is loose is counted with the namespaces now.
    func settleLoose() { total.add(-loose.exchange(0, ordering: .relaxed)) }

    func fail(_ reason: String) -> Never { file.end(reason) }

    // MARK: Room

    /// Takes pages out of memory, as long as there is too much in it and pages have more than their least share.
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
        // Freed behind the lock.
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
