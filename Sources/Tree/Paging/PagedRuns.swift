/// Children of one branch that come in the order of their keys' bytes, packed a run at a time. That is the order of keys but for integers
/// and rare letters, so that most runs can be put one behind the other.
struct PagedRuns {
    private var runs: [ChildMap] = []

    /// - Parameter isSorted: whether the entries are in the order of their keys. They are sorted in place where not.
    mutating func add(_ entries: inout ContiguousArray<ChildMap.Entry>, isSorted: Bool, _ packer: inout TreePacker?) {
        if !isSorted { ChildMap.normalize(&entries) }
        if entries.isEmpty { return }
        append(ChildMap(sorted: entries), &packer)
    }

    private mutating func append(_ run: ChildMap, _ packer: inout TreePacker?) {
        runs.append(packer?.pack(run) ?? run)
    }

    /// All of them.
    consuming func joined(_ packer: inout TreePacker?) -> ChildMap {
        if !areInOrder { merge(&packer) }
        var slabs = ContiguousArray<ChildMap.Slab>()
        for run in runs {
            // A level less for each run that has one.
            if case .inner(let inner) = run.root { slabs.append(contentsOf: inner.slabs) } else { slabs.append(run.root) }
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

    /// Makes runs in order of these. Each has a page in memory meanwhile.
    private mutating func merge(_ packer: inout TreePacker?) {
        var heap = RunHeap(runs.map { $0.makeIterator() })
        runs = []
        var entries = ContiguousArray<ChildMap.Entry>()
        var rows = 0
        let most = packer?.sizes.rowsOfRun ?? .max
        while let entry = heap.next() {
            if let last = entries.last, last.key == entry.key { entries.removeLast() }
            entries.append(entry)
            rows += entry.node.rowCount
            guard rows >= most, entries.count > 1 else { continue }
            // The last one stays: the next may have its key.
            let last = entries.removeLast()
            append(ChildMap(sorted: entries), &packer)
            entries = [last]
            rows = last.node.rowCount
        }
        if !entries.isEmpty { append(ChildMap(sorted: entries), &packer) }
    }
}

/// The entries of several sorted runs in order; of equal keys those of earlier runs first.
private struct RunHeap {
    private struct Run {
        var head: ChildMap.Entry
        var rest: ChildMap.Iterator
        let number: Int

        func comesBefore(_ other: Run) -> Bool {
            let order = head.key.order(against: other.head.key)
            return order < 0 || (order == 0 && number < other.number)
        }
    }

    private var runs: [Run] = []

    init(_ iterators: [ChildMap.Iterator]) {
        for (number, iterator) in iterators.enumerated() {
            var rest = iterator
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
