public import Tree

/// The hashes of the parts of a client's data (reference: rtdb-protocol 3.7).
public struct CompoundHash: Sendable, Equatable {
    /// The ends of the parts: the path of each part's last leaf, except for the last part, which has no end.
    public let posts: [Path]
    /// The hashes of the parts; one more than there are posts.
    public let hashes: [String]

    public init?(posts: [Path], hashes: [String]) {
        guard hashes.count == posts.count + 1 else { return nil }
        self.posts = posts
        self.hashes = hashes
    }
}

extension CompoundHash {
    /// Creates the hashes of a client's value. The last part is empty, because the client does not know the data after
    /// its last leaf.
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

    /// Creates the hashes of a client's value, with the part size that the SDKs use: a large value gets enough parts,
    /// but not too many.
    public init(of node: Node) {
        let size = Double(JSONWriter.encode(node, form: .export).count)
        self.init(of: node, partBytes: max(512, Int((size * 100).squareRoot())))
    }
}
