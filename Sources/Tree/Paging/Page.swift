import Synchronization

/// A part of a tree whose bytes a keeper has, and which is in memory as long as there is room. Its content never changes. Any thread.
///
///     tree version 1    tree version 2          several versions can share a slab
///              \         /
///            ChildMap.Slab.paged
///                   |
///               PagedSlab      lowKey, count and rowCount stay in memory
///                   |  owns
///                  Page        content: the slab in memory, or nil
///                   |  place: offset and length
///                   v
///               PageKeeper     keeps the bytes; in a gateway `TreePages` with one `PageFile` for all trees
///
///     TreePacker --- keep(bytes), cameIn ---> in memory --- leave(), not used since the last leave() ---> out
///                                             in memory <-- content(): read, decode, cameIn ------------- out
///     release of the PagedSlab: close(), and the keeper frees the bytes
///
/// `PageKeeper` decides which pages leave memory. `content(_:)` marks the page as used unless the caller only walks
/// over the tree; the next `leave()` then clears the mark and the page stays. A change reads the page with the purpose
/// `change` and puts slabs without a page into the new version. These slabs share children with the content of the
/// page, so the keeper counts the bytes of such a page as loose once the page leaves memory or is closed: they are parts
/// of a tree now.
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

/// Where the bytes of a page are.
public struct PagePlace: Sendable, Equatable {
    /// In bytes from the beginning.
    public let offset: Int64
    /// How many bytes.
    public let length: Int32

    public init(offset: Int64, length: Int32) {
        self.offset = offset
        self.length = length
    }
}

/// Keeps the bytes of pages outside of memory, and knows which pages are in memory besides. Any thread.
public protocol PageKeeper: AnyObject, Sendable {
    /// Keeps these bytes; nil where there is no room for them.
    func keep(_ bytes: UnsafeRawBufferPointer) -> PagePlace?

    /// Lends the bytes that were kept for the duration of the call. A keeper that has lost what it kept must end the process: whoever reads
    /// a tree has no answer to a part of it that is not there.
    func withBytes<Result>(at place: PagePlace, _ body: (UnsafeRawBufferPointer) -> Result) -> Result

    /// Nobody reads these bytes any more.
    func free(_ place: PagePlace)

    /// The page has come into memory. The keeper has a reference to it from now on, until `Page.leave` says that it isn't there.
    func cameIn(_ page: Page)

    /// So many bytes of a page that was in memory are no longer, as nothing refers to it.
    func wentOut(bytes: Int)

    /// So many bytes of a page that was in memory are parts of trees now, without a page: something in it was changed, and nothing refers to
    /// the page any more.
    func cameLoose(bytes: Int)

    /// Ends the process, as what a page holds can't be had.
    func fail(_ reason: String) -> Never
}

/// The bytes of a page: the number of its children, then for each its key and its value as `NodeCodec` writes it.
enum PageCodec {
    /// Writes the children of a slab without pages in it.
    static func encode(_ slab: ChildMap.Slab, to writer: inout ByteWriter) {
        writer.varint(UInt64(slab.count))
        ChildMap(root: slab).forEachEntry { entry in
            writer.text(entry.key.text)
            _ = NodeCodec.write(entry.node, to: &writer, limit: .max)
        }
    }

    /// Nil where these are not the bytes of a page.
    static func decode(_ bytes: UnsafeRawBufferPointer) -> ChildMap.Slab? {
        var reader = ByteReader(bytes)
        guard let count = reader.count(), count > 0 else { return nil }
        var entries = ContiguousArray<ChildMap.Entry>()
        entries.reserveCapacity(count)
        var keys: KeyCache? = KeyCache()
        for _ in 0..<count {
            guard let key = reader.text(), let node = NodeCodec.read(&reader, depth: 0, &keys) else { return nil }
            entries.append(.init(key: Key(key), node: node))
        }
        return reader.isAtEnd ? ChildMap.Slab.build(entries) : nil
    }
}
