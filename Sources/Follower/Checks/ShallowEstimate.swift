import Runtime
import Tree

/// Estimates the size of an upstream's tree by shallow reads of a few children on each level. Reads little and knows little: the
/// estimate assumes that the other children of a node are like those that were read.
struct ShallowEstimate {
    private(set) var rest: UpstreamREST
    /// The number of requests that are left.
    private var left = 200
    /// The number of children that are read on each level.
    private static let samples = 3
    /// A value with at most this many bytes is read as a whole.
    private static let mostBytes = 4_096
    /// A long leaf is read up to this size.
    private static let mostLeafBytes = 1 << 20
    /// The number of bytes after which the estimate reads no more.
    private static let enoughBytes: Int64 = 16 << 20

    init(_ rest: UpstreamREST) { self.rest = rest }

    /// Returns the approximate number of bytes of the whole tree as JSON.
    mutating func bytes(_ credential: UpstreamCredential?) throws(FollowError) -> Int64 {
        Int64(min(try size(.root, credential), 1e18))
    }

    private mutating func size(_ path: Path, _ credential: UpstreamCredential?) throws(FollowError) -> Double {
        left -= 1
        if let size = try rest.size(path, most: Self.mostBytes, credential) { return Double(size) }
        guard left > 0, rest.receivedBytes < Self.enoughBytes, path.depth < KeyRules.maxDepth else {
            return Double(Self.mostBytes)
        }
        left -= 1
        let keys = try rest.childKeys(path, most: nil, credential).keys
        guard !keys.isEmpty else {
            return Double(try rest.size(path, most: Self.mostLeafBytes, credential) ?? Self.mostLeafBytes)
        }
        var sum = 0.0
        var count = 0
        let step = max(1, keys.count / Self.samples)
        for index in stride(from: step / 2, to: keys.count, by: step) where left > 0 {
            sum += try size(path.appending(keys[index]), credential)
            count += 1
        }
        let own = keys.reduce(0.0) { $0 + Double($1.byteCount + 4) }
        return own + (count > 0 ? sum / Double(count) * Double(keys.count) : Double(Self.mostBytes))
    }
}
