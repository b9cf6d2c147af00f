public import Tree

/// The hashes of the parts of what a client has (reference: rtdb-protocol 3.7).
public struct CompoundHash: Sendable, Equatable {
    /// Where the parts end: the path of each part's last leaf, but for the last part, which has no end.
    public let posts: [Path]
    /// One more than there are posts.
    public let hashes: [String]

    public init?(posts: [Path], hashes: [String]) {
        guard hashes.count == posts.count + 1 else { return nil }
        self.posts = posts
        self.hashes = hashes
    }
}

extension CompoundHash {
    /// What a client says of a value that it has. The last part is empty: what comes behind its last leaf, the client
    /// doesn't know.
    ///
    /// - Parameter partBytes: a part ends with the leaf that makes its text longer than this.
    public init(of node: Node, partBytes: Int) {
        var posts: [Path] = []
        var hashes: [String] = []
        var part = RangeText()
        var last: Path?
        for row in LeafRows(node).rows {
            part.append(row)
            last = row.path
            if part.byteCount > partBytes, !row.path.namesPriority {
                posts.append(row.path)
                hashes.append(part.hash)
                part = RangeText()
                last = nil
            }
        }
        if let last {
            posts.append(last)
            hashes.append(part.hash)
        }
        self.posts = posts
        self.hashes = hashes + [""]
    }

    /// The same, with parts of the size that the SDKs choose: enough of them for a large value, and not too many.
    public init(of node: Node) {
        let size = Double(JSONWriter.encode(node, form: .export).count)
        self.init(of: node, partBytes: max(512, Int((size * 100).squareRoot())))
    }
}
