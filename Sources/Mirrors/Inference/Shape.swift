import Tree

/// The kind of the values at one path of many records, taken together.
enum Shape: Sendable, Equatable {
    /// Single values.
    case leaf
    /// Sets of keys, and lists of texts: `text[]`.
    case set
    /// Coordinates, and other values that consist of many numbers: `jsonb`.
    case json
    /// Named fields, which most of the values share.
    case record
    /// Any number of similar children.
    case collection(Keys)

    /// The kind of a collection's keys.
    enum Keys: Sendable, Equatable {
        /// An array's indices, starting at 0 or 1.
        case index
        case date
        case other
    }

    /// The maximum number of values, and of children of each, that are examined.
    private static let sample = 300
    /// The shares of keys and of fields that decide for all of them.
    private static let most = 0.8
    private static let alike = 0.6
    /// With at least this many single values of one type, the keys belong to records and are not names of fields.
    private static let manyValues = 30
    /// With at least this many records under keys of their own, the records need not be alike.
    private static let manyRecords = 20
    /// Up to this many neighbouring collections must have more fields in common, because each may hold other things.
    private static let fewLists = 20

    /// The minimum numbers of branches and of names for conclusions from the names that each branch has.
    private static let manyBranches = 5
    private static let manyNames = 3

    /// - Parameter known: collections. A map with keys of one of them is a collection, regardless of its values.
    init(_ values: some Sequence<Node>, among known: KnownCollections = KnownCollections()) {
        var branches: [Branch] = []
        var leaves = 0
        for value in values.prefix(Self.sample) {
            if case .branch(let branch) = value { branches.append(branch) } else { leaves += 1 }
        }
        guard !branches.isEmpty, branches.count >= leaves else {
            self = .leaf
            return
        }
        let isKnown = known.name(of: Set(branches.flatMap { $0.children.prefix(Self.sample).map(\.key) })) != nil
        if branches.allSatisfy(Self.isSet), isKnown || !Self.areSameFlags(branches) {
            self = .set
        } else if Self.areCoordinates(branches) {
            self = .json
        } else if let keys = Self.generatedKeys(branches) {
            self = .collection(keys)
        } else {
            self = isKnown || Self.isCollection(branches) ? .collection(.other) : .record
        }
    }

    private static func isSet(_ branch: Branch) -> Bool {
        let isKeySet = branch.children.allSatisfy { $0.node.withoutPriority == .bool(true) }
        guard !isKeySet else { return true }
        guard case .cell(.texts) = Conversion.convert(.branch(branch), to: .textArray) else { return false }
        return branch.children.allSatisfy { if case .string = $0.node.withoutPriority { true } else { false } }
    }

    /// Whether nearly all branches have the same keys. If many of them are `{"online": true}`, that is a field.
    private static func areSameFlags(_ branches: [Branch]) -> Bool {
        guard branches.count > 1, !branches.contains(where: isArray) else { return false }
        let keys = Set(branches.flatMap { $0.children.prefix(sample).map(\.key) })
        let total = branches.reduce(0) { $0 + min($1.children.count, sample) }
        return Double(total) >= most * Double(keys.count * branches.count)
    }

    // MARK: Coordinates

    /// Recognizes GeoJSON's geometries, lists of two to four numbers with one length, and lists of lists of numbers.
    private static func areCoordinates(_ branches: [Branch]) -> Bool {
        if branches.allSatisfy({ $0.children[Key("coordinates")] != nil && $0.children[Key("type")] != nil }) {
            return true
        }
        guard branches.allSatisfy({ isArray($0) && onlyNumbers(.branch($0), depth: 0) }) else { return false }
        let isFlat = branches.allSatisfy { $0.children.allSatisfy { !$0.node.isBranch } }
        let lengths = Set(branches.map(\.children.count))
        return !isFlat || lengths.count == 1 && lengths.allSatisfy((2...4).contains)
    }

    private static func onlyNumbers(_ node: Node, depth: Int) -> Bool {
        switch node.withoutPriority {
        case .int, .double: true
        case .branch(let branch):
            depth < 4 && isArray(branch)
                && branch.children.prefix(sample).allSatisfy { onlyNumbers($0.node, depth: depth + 1) }
        default: false
        }
    }

    /// Whether a branch represents an array: its keys are whole numbers, and most numbers up to the greatest are present.
    private static func isArray(_ branch: Branch) -> Bool {
        var greatest = 0
        for entry in branch.children {
            guard let index = Int(entry.key.text), index >= 0, String(index) == entry.key.text else { return false }
            greatest = max(greatest, index)
        }
        return greatest < 2 * branch.children.count + 1
    }

    // MARK: Collections

    /// Returns nil if too many keys are names.
    private static func generatedKeys(_ branches: [Branch]) -> Keys? {
        var kinds: [KeyKind: Int] = [:]
        var total = 0
        for branch in branches {
            for entry in branch.children.prefix(sample) {
                kinds[KeyKind(entry.key.text), default: 0] += 1
                total += 1
            }
        }
        guard Double(total - (kinds[.name] ?? 0)) >= most * Double(total) else { return nil }
        if kinds[.number] == total, branches.allSatisfy(isArray) { return .index }
        return kinds[.date] == total ? .date : .other
    }

    /// Whether children with names as keys are nevertheless records.
    private static func isCollection(_ branches: [Branch]) -> Bool {
        var occurrences: [Key: Int] = [:]
        var children: [Node] = []
        for branch in branches {
            for entry in branch.children.prefix(sample) {
                occurrences[entry.key, default: 0] += 1
                children.append(entry.node)
            }
        }
        // A field is in most of the branches; a record's key is in one or a few of them.
        let isRecurring = 2 * children.count > occurrences.count * branches.count
        if branches.count > 1, isRecurring {
            return branches.count >= manyBranches && occurrences.count >= manyNames
                && occurrences.values.allSatisfy { Double($0) <= most * Double(branches.count) }
                && areNumbersOrRecords(children)
        }
        if occurrences.count >= 3, occurrences.keys.allSatisfy(isNumbered) { return true }
        let branchCount = children.count(where: \.isBranch)
        if branchCount == 0 {
            // A field of several branches would be in most of them.
            return occurrences.count >= (branches.count > 1 ? 3 : manyValues) && areOfOneType(children)
        }
        if branches.count == 1, areIrregularRecords(children) { return true }
        guard branchCount == children.count else { return false }
        if children.count == 1, case .branch(let only) = children[0] {
            return only.children.contains { !$0.node.isBranch }
        }
        return areAlike(children)
    }

    /// Whether these are many records that are not alike, because each has some of many fields. Sections of settings do not
    /// share names.
    private static func areIrregularRecords(_ children: [Node]) -> Bool {
        let records = children.compactMap { node -> Branch? in
            guard case .branch(let branch) = node, !isArray(branch), generatedKeys([branch]) == nil,
                branch.children.contains(where: { !$0.node.isBranch })
            else { return nil }
            return branch
        }
        guard records.count >= manyRecords, Double(records.count) >= most * Double(children.count) else { return false }
        var counts: [Key: Int] = [:]
        for record in records {
            for entry in record.children.prefix(sample) { counts[entry.key, default: 0] += 1 }
        }
        // Most of their values have names that several of the records use.
        let shared = counts.values.filter { 4 * $0 >= manyRecords }.reduce(0, +)
        return 2 * shared > counts.values.reduce(0, +)
    }

    /// Recognizes keys such as `p17` or `order-1001`.
    private static func isNumbered(_ key: Key) -> Bool {
        let digits = key.text.reversed().prefix { $0.isASCII && $0.isNumber }
        return !digits.isEmpty && (1...12).contains(key.text.count - digits.count)
    }

    /// Whether the children are numbers, booleans, or similar records. Texts are excluded: those of optional fields are as
    /// similar as those of a map.
    private static func areNumbersOrRecords(_ children: [Node]) -> Bool {
        if children.allSatisfy(\.isBranch) { return areAlike(children) }
        guard !children.contains(where: \.isBranch), areOfOneType(children) else { return false }
        if case .string? = children.first?.withoutPriority { return false }
        return true
    }

    private static func areOfOneType(_ leaves: [Node]) -> Bool {
        let names = Set(
            leaves.map { node in
                switch node.withoutPriority {
                case .bool: 0
                case .int, .double: 1
                default: 2
                }
            })
        return names.count == 1
    }

    /// Whether most of the fields of these records are in more than half of them, or all records have children with generated
    /// keys.
    private static func areAlike(_ records: [Node]) -> Bool {
        let branches = records.compactMap { node in if case .branch(let branch) = node { branch } else { nil } }
        if branches.allSatisfy(isSet) { return true }
        if branches.allSatisfy({ generatedKeys([$0]) != nil }) {
            // Collections of equal things, such as the messages of each room, or lists of different things.
            let inner = branches.flatMap { $0.children.prefix(3).map(\.node) }
            let share = branches.count <= fewLists ? most : alike
            return inner.allSatisfy(\.isBranch) ? haveFieldsInCommon(inner, share) : areOfOneType(inner)
        }
        // Collections again, under names, such as the users typing in each room.
        if branches.count > 1, case .collection = Shape(records) { return true }
        return haveFieldsInCommon(records, alike)
    }

    private static func haveFieldsInCommon(_ records: [Node], _ share: Double) -> Bool {
        let branches = records.compactMap { node in if case .branch(let branch) = node { branch } else { nil } }
        var counts: [Key: Int] = [:]
        for branch in branches {
            for entry in branch.children.prefix(sample) { counts[entry.key, default: 0] += 1 }
        }
        let total = counts.values.reduce(0, +)
        let common = counts.values.filter { 2 * $0 > branches.count }.reduce(0, +)
        return Double(common) >= share * Double(total)
    }
}

/// The kind of a key: a chosen name, or one of the kinds that programs generate.
enum KeyKind: Sendable, Hashable {
    case name
    /// A whole number, such as an array's index or a database's id.
    case number
    case pushID
    case uuid
    /// A day, a month or a week.
    case date
    /// A long mixture of digits and letters.
    case token

    init(_ text: String) {
        let bytes = Array(text.utf8)
        if !bytes.isEmpty, bytes.allSatisfy(Self.isDigit), bytes.count <= 18 {
            self = .number
        } else if bytes.count == 20, bytes[0] == UInt8(ascii: "-"), bytes.allSatisfy(Self.isOfPushIDs) {
            self = .pushID
        } else if UUIDText.isUUID(text) {
            self = .uuid
        } else if ISO8601.day(text) != nil || Self.isMonthOrWeek(bytes) {
            self = .date
        } else if Self.isToken(bytes) {
            self = .token
        } else {
            self = .name
        }
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }

    private static func isLetter(_ byte: UInt8) -> Bool { (0x61...0x7A).contains(byte | 0x20) }

    private static func isOfPushIDs(_ byte: UInt8) -> Bool {
        isDigit(byte) || isLetter(byte) || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
    }

    /// Recognizes texts such as `2026-01` or `2026-W05`.
    private static func isMonthOrWeek(_ bytes: [UInt8]) -> Bool {
        guard bytes.count == 7 || bytes.count == 8, bytes[4] == UInt8(ascii: "-") else { return false }
        let rest = bytes.count == 8 ? bytes[6...] : bytes[5...]
        return bytes[..<4].allSatisfy(isDigit) && rest.allSatisfy(isDigit)
            && (bytes.count == 7 || bytes[5] == UInt8(ascii: "W"))
    }

    /// Recognizes random bytes in hexadecimal or Base64, such as the ids of users and documents.
    private static func isToken(_ bytes: [UInt8]) -> Bool {
        guard bytes.count >= 16, bytes.allSatisfy(isOfPushIDs) else { return false }
        let digits = bytes.count(where: isDigit)
        return digits >= 2 && digits < bytes.count
            && (bytes.count >= 20 || bytes.allSatisfy { isDigit($0) || (0x61...0x66).contains($0 | 0x20) })
    }
}
