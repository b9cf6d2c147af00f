import Runtime

/// Slots in the order of their last use: a doubly linked list over integers from 0. Each operation is O(1).
/// A value.
struct RecencyList: Sendable {
    private struct Link: Sendable {
        var before = -1
        var after = -1
        /// The time of the last use.
        var used: Milliseconds
    }
    private var links: [Link] = []
    /// The least recently used slot; nil if the list is empty.
    private(set) var first: Int?
    private var last: Int?
    private(set) var count = 0

    init() {}

    /// Adds a slot that is not in the list, as the most recently used one.
    ///
    /// - Parameter time: The time of that use, in monotonic milliseconds.
    mutating func append(_ index: Int, at time: Milliseconds) {
        while links.count <= index { links.append(Link(used: time)) }
        links[index] = Link(before: last ?? -1, after: -1, used: time)
        if let last { links[last].after = index } else { first = index }
        last = index
        count += 1
    }

    /// Removes a slot that is in the list.
    mutating func remove(_ index: Int) {
        let link = links[index]
        if link.before >= 0 {
            links[link.before].after = link.after
        } else {
            first = link.after >= 0 ? link.after : nil
        }
        if link.after >= 0 {
            links[link.after].before = link.before
        } else {
            last = link.before >= 0 ? link.before : nil
        }
        count -= 1
    }

    /// Records a use of a slot that is in the list.
    @inline(__always)
    mutating func use(_ index: Int, at time: Milliseconds) {
        if index == last {
            links[index].used = time
            return
        }
        remove(index)
        append(index, at: time)
    }

    /// Returns the time of the last use of a slot in the list.
    func lastUse(of index: Int) -> Milliseconds { links[index].used }

    /// Returns the slot that was used next after a slot in the list; nil for the most recently used one.
    func next(after index: Int) -> Int? {
        let next = links[index].after
        return next >= 0 ? next : nil
    }
}
