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
