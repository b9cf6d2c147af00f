import Synchronization

/// A part of a tree whose bytes a keeper stores, and whose content is in memory as long as the budget permits. The content
/// never changes. Any thread may use a page.
///
///     tree version 1    tree version 2          several versions can share a slab
///              \         /
///            ChildMap.Slab.paged
///                   |
///               PagedSlab      lowKey, count and rowCount stay in memory
///                   |  owns
///                  Page        content: the slab in memory, or nil
///                   |  offset and length
///                   v
///               PageKeeper     stores the bytes; in a gateway `TreePages` with one `PageFile` for all trees
///
///     TreePager ---- keep(bytes), cameIn ---> in memory --- leave(), not used since the last leave() ---> out
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
        /// Whether the content was used for more than a walk since the keeper asked last.
        var wasUsed = false
        /// Whether the keeper refers to the page.
        var isListed = false
        var isClosed = false
        /// Whether a changed copy of the content was made, which shares the unchanged parts.
        var wasOpened = false
    }

    private let state: Mutex<State>
    private let keeper: any PageKeeper
    private let location: PageLocation
    /// The approximate size of the content in memory, in bytes.
    public let heapBytes: Int

    /// - Parameter content: the decoded content of the bytes at `location`.
    init(_ content: ChildMap.Slab, heapBytes: Int, at location: PageLocation, in keeper: any PageKeeper) {
        state = Mutex(State(content: content, isListed: true))
        self.heapBytes = heapBytes
        self.location = location
        self.keeper = keeper
        keeper.cameIn(self)
    }

    /// Returns the content, and reads it if it is not in memory. Other callers wait during a read.
    ///
    /// - Parameter purpose: content from which a single value is needed stays longer than content that is only walked over.
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
        guard let slab = keeper.withBytes(at: location, PageCodec.decode) else {
            keeper.fail("a page of a tree is damaged: its bytes can't be decoded")
        }
        return slab
    }

    /// The result of asking a page to leave memory.
    public enum Leaving: Sendable {
        /// The page was used since it was asked last, and stays.
        case stays
        /// The page has left memory. Its content is freed with this value. The keeper no longer refers to the page.
        case left(Content)
        /// The page has left memory, but part of it was changed before: most of its content is now part of a tree.
        case cameLoose(Content)
        /// No tree refers to the page any more, and the keeper must forget it, too.
        case isClosed
    }

    /// The content of a page. Freeing it may take long, so no lock may be held meanwhile.
    public struct Content: Sendable {
        let slab: ChildMap.Slab
    }

    /// Removes the content from memory, unless it was used since the last call. Only the keeper may call this.
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

    /// Closes the page, because no tree contains it any more.
    func close() {
        let (content, wasOpened) = state.withLock { state -> (ChildMap.Slab?, Bool) in
            state.isClosed = true
            defer { state.content = nil }
            return (state.content, state.wasOpened)
        }
        keeper.free(location)
        guard content != nil else { return }
        if wasOpened { keeper.cameLoose(bytes: heapBytes) } else { keeper.wentOut(bytes: heapBytes) }
    }
}

/// The purpose of reading a page.
enum PagePurpose {
    /// The whole content is walked over.
    case walk
    /// A single value is read.
    case read
    /// A single value is changed, and the rest goes into a copy.
    case change
}

/// A slab whose content is in a page.
final class PagedSlab: Sendable {
    private let page: Page
    let lowKey: Key
    let count: Int
    let rowCount: Int

    /// Returns nil if the keeper has no space.
    init?(_ slab: ChildMap.Slab, bytes: UnsafeRawBufferPointer, in keeper: any PageKeeper) {
        guard let location = keeper.keep(bytes) else { return nil }
        lowKey = slab.lowKey
        count = slab.count
        rowCount = slab.rowCount
        page = Page(slab, heapBytes: HeapCount.bytes(of: slab), at: location, in: keeper)
    }

    deinit { page.close() }

    /// The approximate size of the content in memory, in bytes.
    var heapBytes: Int { page.heapBytes }

    /// Returns the content of the page.
    func slab(for purpose: PagePurpose) -> ChildMap.Slab {
        // Releasing this object frees the page's bytes.
        withExtendedLifetime(self) { page.content(purpose) }
    }
}

/// The location of a page's bytes.
public struct PageLocation: Sendable, Equatable {
    /// The offset from the beginning, in bytes.
    public let offset: Int64
    /// The length in bytes.
    public let length: Int32

    public init(offset: Int64, length: Int32) {
        self.offset = offset
        self.length = length
    }
}

/// Stores the bytes of pages outside of memory, and knows which pages are also in memory. Any thread may use a keeper.
public protocol PageKeeper: AnyObject, Sendable {
    /// Stores these bytes. Returns nil if there is no space for them.
    func keep(_ bytes: UnsafeRawBufferPointer) -> PageLocation?

    /// Calls `body` with stored bytes, which are valid during the call. A keeper that has lost bytes must end the process,
    /// because readers of a tree can't handle a missing part.
    func withBytes<Result>(at location: PageLocation, _ body: (UnsafeRawBufferPointer) -> Result) -> Result

    /// Releases bytes that no page needs any more.
    func free(_ location: PageLocation)

    /// Notes that the page is in memory. The keeper refers to it from now on, until `Page.leave` returns that it has left
    /// memory.
    func cameIn(_ page: Page)

    /// Notes that this many bytes of a page in memory were freed, because no tree refers to the page any more.
    func wentOut(bytes: Int)

    /// Notes that this many bytes of a page in memory are now parts of trees without a page: a part was changed, and no tree
    /// refers to the page any more.
    func cameLoose(bytes: Int)

    /// Ends the process, because the content of a page can't be read.
    func fail(_ reason: String) -> Never
}

/// The bytes of a page: the number of its children, then each child's key, and its value in the format of `NodeCodec`.
enum PageCodec {
    /// Writes the children of a slab that contains no pages.
    static func encode(_ slab: ChildMap.Slab, to writer: inout ByteWriter) {
        writer.varint(UInt64(slab.count))
        ChildMap(root: slab).forEachEntry { entry in
            writer.text(entry.key.text)
            _ = NodeCodec.write(entry.node, to: &writer, limit: .max)
        }
    }

    /// Returns nil if the bytes are not those of a page.
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
