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
    /// its last leaf. Needs memory for the posts, the hashes and the longest leaf.
    ///
    /// - Parameter partBytes: a part ends with the leaf that makes its text longer than this.
    public init(of node: Node, partBytes: Int) {
        var posts: [Path] = []
        var hashes: [String] = []
        var part = RangeText()
        LeafWalk.visit(node) { keys, shared, value in
            part.append(keys, shared: shared, value)
            guard part.byteCount > partBytes, keys.last != .priority else { return }
            posts.append(Path(keys))
            hashes.append(part.takeHash())
        }
        if !part.isEmpty, let last = node.lastLeafPath {
            posts.append(last)
            hashes.append(part.takeHash())
        }
        self.posts = posts
        self.hashes = hashes + [""]
    }

    /// Creates the hashes of a client's value, with the part size that the SDKs use: a large value gets enough parts,
    /// but not too many.
    public init(of node: Node) {
        let size = Double(JSONLength.export(node))
        self.init(of: node, partBytes: max(512, Int((size * 100).squareRoot())))
    }

    /// Creates the hashes of a query's data: the children in a range of keys, without the node's own priority. The
    /// query's hash is that of `Node.restricted(toKeysFrom:through:)`.
    ///
    /// - Parameters:
    ///   - first: the first key of the range; nil for an open start.
    ///   - last: the last key of the range; nil for an open end.
    public init(of node: Node, keysFrom first: Key?, through last: Key?) {
        self.init(of: node.restricted(toKeysFrom: first, through: last))
    }
}
