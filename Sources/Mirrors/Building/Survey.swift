import Tree

/// What is found in records, place by place.
struct Survey {
    /// A place in records, and how many values there each type would take.
    struct Place {
        /// Of its first appearance.
        let order: Int
        var present = 0
        var fits: [ColumnType: Int] = [:]

        /// The type that most values fit, the narrower one first, and how many would not; nil for no good one.
        var best: (type: ColumnType, misfits: Int)? {
            let candidates: [ColumnType] = [
                .boolean, .timestamp, .bigint, .double, .uuid, .date, .textArray, .text,
            ]
            var best: (type: ColumnType, count: Int)?
            for type in candidates {
                let count = fits[type] ?? 0
                if count > 0, count > (best?.count ?? 0) { best = (type, count) }
            }
            guard let best, best.count * 2 > present else { return nil }
            return (best.type, present - best.count)
        }
    }

    private(set) var places: [Path: Place] = [:]
    private(set) var recordCount = 0

    /// Places with more different keys than this hold records of their own, and are no columns.
    private static let maxPlaces = 2_000
    private static let maxDepth = 4
    /// 2001 to 2100: what people mean by numbers of this size.
    private static let moments: ClosedRange<Int64> = 978_307_200_000...4_102_444_800_000

    mutating func take(_ record: Node) {
        recordCount += 1
        take(record, .root)
    }

    private mutating func take(_ node: Node, _ path: Path) {
        let value = node.isLeaf ? node.withoutPriority : node
        guard case .branch(let branch) = value else { return note(value, path) }
        let isSet = !path.isRoot && branch.children.allSatisfy { $0.node.withoutPriority == .bool(true) }
        if isSet { return note(value, path) }
        guard path.depth < Self.maxDepth else { return }
        for entry in branch.children { take(entry.node, path.appending(entry.key)) }
    }

    private mutating func note(_ value: Node, _ path: Path) {
        guard places[path] != nil || places.count < Self.maxPlaces else { return }
        var place = places[path] ?? Place(order: places.count)
        place.present += 1
        for type in Self.types(value) { place.fits[type, default: 0] += 1 }
        places[path] = place
    }

    /// The types that a value suggests: not all that would take it.
    private static func types(_ value: Node) -> [ColumnType] {
        switch value {
        case .bool: return [.boolean]
        case .int(let number): return moments.contains(number) ? [.timestamp, .bigint, .double] : [.bigint, .double]
        case .double: return [.double]
        case .string(let text):
            var types: [ColumnType] = [.text]
            if UUIDText.isUUID(text) { types.append(.uuid) }
            if ISO8601.day(text) != nil {
                types.append(.date)
            } else if ISO8601.microseconds(text) != nil {
                types.append(.timestamp)
            }
            return types
        case .branch: return [.textArray]
        default: return []
        }
    }
}
