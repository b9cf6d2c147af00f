public import Tree

/// The number of a write of this client. Later writes have greater numbers, across restarts too.
public struct WriteID: Sendable, Hashable, Comparable {
    public let rawValue: Int64

    public init(rawValue: Int64) { self.rawValue = rawValue }

    public static func < (left: WriteID, right: WriteID) -> Bool { left.rawValue < right.rawValue }
}

/// A write that the server has not answered yet. Its values may hold server values.
public struct PendingWrite: Sendable, Equatable {
    public enum Content: Sendable, Equatable {
        case overwrite(Node)
        /// Places below the path, relative to it, none above another.
        case merge([Change])
    }

    public let id: WriteID
    public let path: Path
    public let content: Content
    /// By which the server knows the write again; nil for a write of an older version of this library.
    public let name: WriteName?

    public init(id: WriteID, path: Path, content: Content, name: WriteName? = nil) {
        self.name = name
        self.id = id
        self.path = path
        self.content = content
    }
}
