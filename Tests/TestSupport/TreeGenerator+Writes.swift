public import Engine
import Rules
public import Tree

extension TreeGenerator {
    /// Returns a random write: mostly sets, some updates of several paths, removals, increments and priorities.
    public mutating func write() -> Write {
        switch random.below(10) {
        case 0, 1:
            let base = path(maxDepth: 1)
            return Write(
                .update(base: base, changes(atMost: 4, below: base)), operation: .update, byteCount: 64, auth: .admin)
        case 2: return Write(.set(path(maxDepth: 3), .null), operation: .remove, byteCount: 16, auth: .admin)
        case 3:
            let value = Node.serverValue(ServerValue(.increment(.int(Int64(random.below(9) - 4)))))
            return Write(
                .set(path(maxDepth: 3), value), operation: .set, hasServerValue: true, byteCount: 32, auth: .admin)
        case 4:
            return Write(
                .set(path(maxDepth: 2).appending(.priority), priority()), operation: .set, byteCount: 16, auth: .admin)
        default:
            return Write(.set(path(maxDepth: 4), tree(depth: 3)), operation: .set, byteCount: 64, auth: .admin)
        }
    }
}

extension Write {
    /// Returns a plain set by an administrator.
    public static func set(_ path: String, _ value: Node, expecting hash: String? = nil, byteCount: Int = 32) -> Write {
        Write(
            .set(Path(splitting: path), value), operation: hash == nil ? (value.isNull ? .remove : .set) : .transaction,
            expectedHash: hash, byteCount: byteCount, auth: .admin)
    }

    /// A copy of the write for a client that waits for its outcome. If it is large, it may be prepared concurrently
    /// with others.
    public var overtakable: Write {
        var write = self
        write.mayBeOvertaken = true
        return write
    }

    /// Returns an administrator's update of several paths.
    public static func update(_ base: String, _ values: [(String, Node)]) -> Write {
        let base = Path(splitting: base)
        let changes = values.map { Change(path: base.appending(Path(splitting: $0.0)), value: $0.1) }
        return Write(.update(base: base, changes), operation: .update, byteCount: 64, auth: .admin)
    }

    /// Returns an increment of the number at a path.
    public static func increment(_ path: String, by delta: Int64 = 1) -> Write {
        Write(
            .set(Path(splitting: path), .serverValue(ServerValue(.increment(.int(delta))))), operation: .set,
            hasServerValue: true, byteCount: 32, auth: .admin)
    }
}
