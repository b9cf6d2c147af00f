import Synchronization

/// A part of a tree whose bytes a keeper has, and which is in memory as long as there is room. Its content never changes. Any thread.
public final class Page: Sendable {
    private struct State: Sendable {
        var content: ChildMap.Slab?
        /// Somebody has looked for one thing in it since the keeper asked last.
        var wasUsed = false
        /// The keeper refers to it.
        var isListed = false
        var isClosed = false
        /// A changed copy of it has been made, with what has not changed in it.
        var wasOpened = false
    }

    private let state: Mutex<State>
    private let keeper: any PageKeeper
    private let place: PagePlace
    /// About what it takes when it is in memory, in bytes.
    public let heapBytes: Int

    /// - Parameter content: what the bytes at the place say.
    init(_ content: ChildMap.Slab, heapBytes: Int, at place: PagePlace, in keeper: any PageKeeper) {
        state = Mutex(State(content: content, isListed: true))
        self.heapBytes = heapBytes
        self.place = place
        self.keeper = keeper
        keeper.cameIn(self)
    }

    /// What it holds, read if it has to be. Who meets it while it is being read waits for that.
    ///
    /// - Parameter purpose: what one thing is wanted of stays longer than what is only walked over.
    func content(_ purpose: PagePurpose) -> ChildMap.Slab {
        let (content, isNew) = state.withLock { state -> (ChildMap.Slab, Bool) in
            if purpose != .walk { state.wasUsed = true }
            if purpose == .change { state.wasOpened = true }
            if let content = state.content { return (content, false) }
            let content = read()
            state.content = content
            defer { state.isListed = true }
            return (content, !state.isListed)
        }
        if isNew { keeper.cameIn(self) }
        return content
    }

    private func read() -> ChildMap.Slab {
        guard let slab = keeper.withBytes(at: place, PageCodec.decode) else {
            keeper.fail("a page of a tree can't be read as what was written")
        }
        return slab
    }

    /// What became of a page that was asked to leave memory.
    public enum Leaving: Sendable {
        /// It was used since it was asked last, and stays.
        case stays
        /// It is out; what it held is freed with this. The keeper has no reference to it any more.
        case left(Content)
        /// The same, but something in it has been changed: most of what it held is a part of a tree now.
        case cameLoose(Content)
        /// Nothing refers to it any more; the keeper forgets it, too.
        case isClosed
    }

    /// What a page held. Freeing it may take its time: no lock may be held meanwhile.
    public struct Content: Sendable {
        let slab: ChildMap.Slab
    }

    /// Takes it out of memory, unless somebody has used it since the last time. Only for its keeper.
    public func leave() -> Leaving {
        state.withLock { state in
            if state.isClosed { return .isClosed }
            if state.wasUsed {
                state.wasUsed = false
                return .stays
            }
            guard let content = state.content else { return .isClosed }
            state.content = nil
            state.isListed = false
            defer { state.wasOpened = false }
            return state.wasOpened ? .cameLoose(Content(slab: content)) : .left(Content(slab: content))
        }
    }

    /// No tree has it any more.
    func close() {
        let (content, wasOpened) = state.withLock { state -> (ChildMap.Slab?, Bool) in
            state.isClosed = true
            defer { state.content = nil }
            return (state.content, state.wasOpened)
        }
        keeper.free(place)
        guard content != nil else { return }
        if wasOpened { keeper.cameLoose(bytes: heapBytes) } else { keeper.wentOut(bytes: heapBytes) }
    }
}

/// What a page is wanted for.
enum PagePurpose {
    /// All of it is gone through.
    case walk
    /// One thing in it is wanted.
    case read
    /// One thing in it is changed, and the rest goes into a copy.
    case change
}

/// A slab that is a page.
final class PagedSlab: Sendable {
    private let page: Page
    let lowKey: Key
    let count: Int
    let rowCount: Int

    /// Nil where the keeper has no room.
    init?(_ slab: ChildMap.Slab, bytes: UnsafeRawBufferPointer, in keeper: any PageKeeper) {
        guard let place = keeper.keep(bytes) else { return nil }
        lowKey = slab.lowKey
        count = slab.count
        rowCount = slab.rowCount
        page = Page(slab, heapBytes: HeapCount.bytes(of: slab), at: place, in: keeper)
    }

    deinit { page.close() }

    /// About what it takes when it is in memory, in bytes.
    var heapBytes: Int { page.heapBytes }

    /// What it stands for: no page.
    func slab(for purpose: PagePurpose) -> ChildMap.Slab {
        // Its bytes go with it.
        withExtendedLifetime(self) { page.content(purpose) }
    }
}
