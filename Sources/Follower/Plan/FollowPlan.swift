import Tree

/// The parts in which a follower listens: together they cover the whole tree, and no two of them overlap. A value.
///
/// One part at the root is the usual plan. Only under it are messages that touch distant paths atomic and in order.
/// If the upstream refuses a listen because its data is too large, `split` replaces the part:
///
///     /                      whole
///     / before m, / from m   two ranges of keys: new children appear in one of them
///     / before users, /users, / after users     one child alone is too large: its siblings stay in ranges
public struct FollowPlan: Sendable, Equatable {
    private(set) var parts: [FollowPart]

    /// The maximum number of parts. Each part costs a listen, and an upstream that refuses every listen must not cause an
    /// endless number of them.
    static let maxParts = 512
    /// The number of ranges that replace a part.
    private static let pieces = 4

    init() { parts = [FollowPart(whole: .root)] }

    init(_ parts: [FollowPart]) { self.parts = parts }

    /// Whether the whole tree is one part.
    var isWhole: Bool { parts.count == 1 && !parts[0].isRange && parts[0].path.isRoot }

    /// The reason why a part can't be split.
    enum SplitError: Error, Equatable {
        /// The value is a leaf, or its depth has no more levels.
        case indivisible
        case tooManyParts
    }

    /// Replaces a part by smaller ones that cover the same paths.
    ///
    /// - Parameter keys: known keys of the part's children, in order. They decide only how well the pieces are balanced.
    /// - Returns: the new parts.
    mutating func split(_ part: FollowPart, at keys: [Key]) throws(SplitError) -> [FollowPart] {
        guard let index = parts.firstIndex(of: part) else { return [] }
        guard let first = keys.first, part.path.depth < KeyRules.maxDepth else { throw .indivisible }
        let new: [FollowPart]
        if keys.count == 1 {
            let before = FollowPart(part.path, from: part.start, to: .init(first, isInclusive: false))
            let after = FollowPart(part.path, from: .init(first, isInclusive: false), to: part.end)
            new = [before, FollowPart(whole: part.path.appending(first)), after].filter { !$0.isEmptyRange }
        } else {
            let count = min(Self.pieces, keys.count)
            var start = part.start
            var pieces: [FollowPart] = []
            for piece in 1..<count {
                let cut = keys[piece * keys.count / count]
                pieces.append(FollowPart(part.path, from: start, to: .init(cut, isInclusive: false)))
                start = .init(cut, isInclusive: true)
            }
            new = pieces + [FollowPart(part.path, from: start, to: part.end)]
        }
        guard parts.count + new.count - 1 <= Self.maxParts else { throw .tooManyParts }
        parts.replaceSubrange(index...index, with: new)
        return new
    }
}

extension FollowPart {
    /// Whether no key can be in the range: its bounds are the same key, and one of them excludes it.
    fileprivate var isEmptyRange: Bool {
        guard isRange, let start, let end else { return false }
        let order = start.key.order(against: end.key)
        return order > 0 || (order == 0 && !(start.isInclusive && end.isInclusive))
    }
}

extension FollowPlan {
    /// The stored form: a JSON array of objects with `path`, and for ranges `from`, `after`, `through` or `before`.
    var stored: String {
        var writer = JSONWriter(form: .plain)
        writer.raw("[")
        for (index, part) in parts.enumerated() {
            if index > 0 { writer.raw(",") }
            writer.beginObject()
            writer.writeKey("path", isFirst: true)
            writer.writeString(part.path.description)
            writer.writeKey("range", isFirst: false)
            writer.raw(part.isRange ? "true" : "false")
            if let start = part.start {
                writer.writeKey(start.isInclusive ? "from" : "after", isFirst: false)
                writer.writeString(start.key.text)
            }
            if let end = part.end {
                writer.writeKey(end.isInclusive ? "through" : "before", isFirst: false)
                writer.writeString(end.key.text)
            }
            writer.endObject()
        }
        writer.raw("]")
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    /// The number of parts of a stored plan; nil if it can't be parsed.
    public static func count(stored text: String) -> Int? { FollowPlan(stored: text)?.parts.count }

    /// Parses the stored form. Returns nil for anything else; the follower then starts with one part.
    init?(stored text: String) {
        guard let elements = RawJSON(Array(text.utf8)).elements, !elements.isEmpty else { return nil }
        var parts: [FollowPart] = []
        for element in elements {
            guard let members = element.members else { return nil }
            func text(_ name: String) -> String? {
                guard let raw = members.last(where: { $0.key == name })?.value,
                    case .string(let text) = try? JSONParser.parse(raw.text).node
                else { return nil }
                return text
            }
            guard let path = text("path").map({ Path(splitting: $0) }) else { return nil }
            let isRange = members.contains { $0.key == "range" && $0.value.text.elementsEqual("true".utf8) }
            guard isRange else {
                parts.append(FollowPart(whole: path))
                continue
            }
            let start =
                text("from").map { FollowPart.Bound(Key($0), isInclusive: true) }
                ?? text("after").map { FollowPart.Bound(Key($0), isInclusive: false) }
            let end =
                text("through").map { FollowPart.Bound(Key($0), isInclusive: true) }
                ?? text("before").map { FollowPart.Bound(Key($0), isInclusive: false) }
            parts.append(FollowPart(path, from: start, to: end))
        }
        self.init(parts)
        var count = 0
        guard covers(.root, &count), count == parts.count else { return nil }
    }

    /// Whether the parts from an index on cover the whole value at a path, in order. Moves the index to the part after them.
    private func covers(_ path: Path, _ index: inout Int) -> Bool {
        guard index < parts.count, path.depth <= KeyRules.maxDepth else { return false }
        if !parts[index].isRange, parts[index].path == path {
            index += 1
            return true
        }
        var next: FollowPart.Bound?
        while index < parts.count {
            let part = parts[index]
            if part.isRange, part.path == path {
                guard part.start == next else { return false }
                index += 1
                guard let end = part.end else { return true }
                next = .init(end.key, isInclusive: !end.isInclusive)
            } else if part.path.depth > path.depth, path.contains(part.path) {
                let key = part.path[path.depth]
                guard next == .init(key, isInclusive: true), covers(path.appending(key), &index) else { return false }
                next = .init(key, isInclusive: false)
            } else {
                return false
            }
        }
        return false
    }
}
