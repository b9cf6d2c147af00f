/// Children of one branch that arrive in the order of their keys' bytes, and are paged out a run at a time. Byte order is key
/// order except for integers and rare letters, so most runs can be joined without merging.
///
///     rows, by bytes:     10 11 .. 19 | 2 20 .. 29 | 3 30 .. 39      the end of a run: about `PageSizes.bytesOfRun`
///     run, by keys:       [10 .. 19]    [2 20 .. 29]  [3 30 .. 39]   each sorted by itself, then paged out
///     joined, by keys:    [2 3 10 .. 19 20 .. 29 30 .. 39]           runs overlap: merged by a heap, paged out again
///
/// `joined` only puts the slabs of the runs into `inner` slabs if each run ends before the next one begins. Otherwise it
/// merges up to `mostRead` runs at a time. The merge releases the pages of a run as it reads them, so the page file can
/// reuse their bytes for the new pages.
struct PagedRuns {
    private var runs: [ChildMap] = []

    /// - Parameter isSorted: whether the entries are ordered by their keys. If not, they are sorted in place.
    mutating func add(_ entries: inout ContiguousArray<ChildMap.Entry>, isSorted: Bool, _ pager: inout TreePager?) {
        if !isSorted { ChildMap.normalize(&entries) }
        if entries.isEmpty { return }
        let run = ChildMap(sorted: entries)
        runs.append(pager?.pageOut(run) ?? run)
    }

    /// Pages out the runs that are in memory.
    mutating func pageOut(_ pager: inout TreePager) {
        for index in runs.indices { runs[index] = pager.pageOut(runs[index]) }
    }

    /// Returns all children, and empties this value.
    mutating func joined(_ pager: inout TreePager?) -> ChildMap {
        while !areInOrder {
            // Each run that is being read has a page in memory, so only a few are read at a time.
            var merged: [ChildMap] = []
            for first in stride(from: 0, to: runs.count, by: Self.mostRead) {
                let range = first..<min(first + Self.mostRead, runs.count)
                merged.append(Self.joined(Self.merged(&runs, range, &pager)))
            }
            runs = merged
        }
        defer { runs = [] }
        return Self.joined(runs)
    }

    private static let mostRead = 64

    /// Joins runs that follow one another.
    private static func joined(_ runs: [ChildMap]) -> ChildMap {
        var slabs = ContiguousArray<ChildMap.Slab>()
        for run in runs {
            // The top level of a run is left out.
            if case .inner(let inner) = run.root {
                slabs.append(contentsOf: inner.slabs)
            } else {
                slabs.append(run.root)
            }
        }
        while slabs.count > ChildMap.width { slabs = ChildMap.Inner.above(slabs, isFull: false) }
        return slabs.count == 1 ? ChildMap(root: slabs[0]) : ChildMap(root: .inner(.init(slabs)))
    }

    private var areInOrder: Bool {
        zip(runs, runs.dropFirst()).allSatisfy { one, next in
            guard let last = one.last, let first = next.first else { return true }
            return last.key < first.key
        }
    }

    /// Returns the content of some runs as runs that follow one another. The old runs are released on the way, so that their
    /// pages are free for the new ones.
    private static func merged(
        _ runs: inout [ChildMap], _ range: Range<Int>, _ pager: inout TreePager?
    ) -> [ChildMap] {
        var heap = RunHeap(&runs, range)
        var made: [ChildMap] = []
        var entries = ContiguousArray<ChildMap.Entry>()
        var bytes = 0
        let most = pager?.sizes.bytesOfRun ?? .max
        func end(_ entries: ContiguousArray<ChildMap.Entry>, _ pager: inout TreePager?) {
            let run = ChildMap(sorted: entries)
            made.append(pager?.pageOut(run) ?? run)
        }
        while let entry = heap.next() {
            if let last = entries.last, last.key == entry.key { entries.removeLast() }
            entries.append(entry)
            bytes += entry.node.heapBytes + MemoryLayout<ChildMap.Entry>.stride
            guard bytes >= most, entries.count > 1 else { continue }
            // The last entry is kept back, because the next one may have the same key.
            let last = entries.removeLast()
            end(entries, &pager)
            entries = [last]
            bytes = last.node.heapBytes
        }
        if !entries.isEmpty { end(entries, &pager) }
        return made
    }
}

/// Returns the entries of several sorted runs in order. Among equal keys, those of earlier runs come first.
private struct RunHeap {
    private struct Run {
        var head: ChildMap.Entry
        var rest: RunEntries
        let number: Int

        func comesBefore(_ other: Run) -> Bool {
            let order = head.key.order(against: other.head.key)
            return order < 0 || (order == 0 && number < other.number)
        }
    }

    private var runs: [Run] = []

    /// - Parameter taken: the runs at `range` are empty afterwards.
    init(_ taken: inout [ChildMap], _ range: Range<Int>) {
        for number in range {
            var rest = RunEntries(&taken[number])
            if let head = rest.next() { runs.append(Run(head: head, rest: rest, number: number)) }
        }
        for index in runs.indices.reversed() { sink(index) }
    }

    mutating func next() -> ChildMap.Entry? {
        guard let first = runs.first else { return nil }
        if let head = runs[0].rest.next() {
            runs[0].head = head
        } else {
            let last = runs.removeLast()
            if runs.isEmpty { return first.head }
            runs[0] = last
        }
        sink(0)
        return first.head
    }

    private mutating func sink(_ start: Int) {
        var index = start
        while true {
            var least = index
            for child in [2 * index + 1, 2 * index + 2] where child < runs.count {
                if runs[child].comesBefore(runs[least]) { least = child }
            }
            if least == index { return }
            runs.swapAt(index, least)
            index = least
        }
    }
}

/// Returns the entries of a run in order. Passed entries are released, and so are their pages unless other objects share them.
private struct RunEntries {
    /// The remaining slabs, the next one last.
    private var slabs: ContiguousArray<ChildMap.Slab>
    private var entries: ContiguousArray<ChildMap.Entry> = []
    private var index = 0

    /// - Parameter run: empty afterwards.
    init(_ run: inout ChildMap) {
        slabs = [run.root]
        run = ChildMap(sorted: [])
    }

    mutating func next() -> ChildMap.Entry? {
        while index >= entries.count {
            guard let slab = slabs.popLast() else { return nil }
            switch slab {
            case .inner(let inner): slabs.append(contentsOf: inner.slabs.reversed())
            case .paged(let paged): slabs.append(paged.slab(for: .walk))
            case .entries(let found):
                entries = found
                index = 0
            }
        }
        defer { index += 1 }
        return entries[index]
    }
}
