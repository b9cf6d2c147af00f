import Tree

/// What the values at one place of many records are, taken together.
enum Shape: Sendable, Equatable {
    /// Single values.
    case leaf
    /// Sets of keys, and lists of texts: `text[]`.
    case set
    /// Coordinates and what else is one value in many numbers: `jsonb`.
    case json
    /// Named fields, the same in most of them.
    case record
    /// Children that are alike, of any number.
    case collection(Keys)

    /// What keys a collection's children have.
    enum Keys: Sendable, Equatable {
        /// An array's indexes, from 0 or 1 on.
        case index
        case date
        case other
    }

    /// How many values, and children of each, are looked at.
    private static let sample = 300
    /// The share of keys, or of fields, from which on all are taken to be so.
    private static let most = 0.8
    private static let alike = 0.6
    /// From so many single values of one type on, names are those of records and not of fields.
    private static let manyValues = 30
    /// From so many records under names of their own on, these need not be alike.
    private static let manyRecords = 20
    /// Of so many collections beside one another each may be a thing of its own.
    private static let fewLists = 20

    /// From so many places on, and so many names in them, it counts that each place has others of the names.
    private static let manyPlaces = 5
    private static let manyNames = 3

    /// - Parameter known: collections whose keys make a map of them, whatever its values are.
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

    /// Whether nearly all have the same keys: `{"online": true}` of many is a field.
    private static func areSameFlags(_ branches: [Branch]) -> Bool {
        guard branches.count > 1, !branches.contains(where: isArray) else { return false }
        let keys = Set(branches.flatMap { $0.children.prefix(sample).map(\.key) })
        let total = branches.reduce(0) { $0 + min($1.children.count, sample) }
        return Double(total) >= most * Double(keys.count * branches.count)
    }

    // MARK: Coordinates

    /// GeoJSON's geometries; lists of two to four numbers, of one length; lists of lists of numbers.
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

    /// Whether a branch is what an array becomes: whole numbers, most of those up to the greatest.
    private static func isArray(_ branch: Branch) -> Bool {
        var greatest = 0
        for entry in branch.children {
            guard let index = Int(entry.key.text), index >= 0, String(index) == entry.key.text else { return false }
            greatest = max(greatest, index)
        }
        return greatest < 2 * branch.children.count + 1
    }

    // MARK: Collections

    /// Nil where names are names.
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

    /// Whether children with names of their own are records all the same.
    private static func isCollection(_ branches: [Branch]) -> Bool {
        var occurrences: [Key: Int] = [:]
        var children: [Node] = []
        for branch in branches {
            for entry in branch.children.prefix(sample) {
                occurrences[entry.key, default: 0] += 1
                children.append(entry.node)
            }
        }
        // A field is in most of the records; the key of a record in one or a few of the places.
        let isRecurring = 2 * children.count > occurrences.count * branches.count
        if branches.count > 1, isRecurring {
            return branches.count >= manyPlaces && occurrences.count >= manyNames
                && occurrences.values.allSatisfy { Double($0) <= most * Double(branches.count) }
                && areNumbersOrRecords(children)
        }
        if occurrences.count >= 3, occurrences.keys.allSatisfy(isNumbered) { return true }
        let branchCount = children.count(where: \.isBranch)
        if branchCount == 0 {
            // In several places a field would be in most of them.
            return occurrences.count >= (branches.count > 1 ? 3 : manyValues) && areOfOneType(children)
        }
        if branches.count == 1, areIrregularRecords(children) { return true }
        guard branchCount == children.count else { return false }
        if children.count == 1, case .branch(let only) = children[0] {
            return only.children.contains { !$0.node.isBranch }
        }
        return areAlike(children)
    }

    /// Whether these are many records that are not alike, as each has some of many fields. Sections of settings share no names.
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
        // Most of what they say is said under names that several of them use.
        let shared = counts.values.filter { 4 * $0 >= manyRecords }.reduce(0, +)
        return 2 * shared > counts.values.reduce(0, +)
    }

    /// `p17`, `order-1001`.
    private static func isNumbered(_ key: Key) -> Bool {
        let digits = key.text.reversed().prefix { $0.isASCII && $0.isNumber }
        return !digits.isEmpty && (1...12).contains(key.text.count - digits.count)
    }

    /// Texts are left out: those of fields that are there or not are no less like one another than those of a map.
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

    /// Whether most of the fields of these records are in more than half of them, or all have children with generated keys.
    private static func areAlike(_ records: [Node]) -> Bool {
        let branches = records.compactMap { node in if case .branch(let branch) = node { branch } else { nil } }
        if branches.allSatisfy(isSet) { return true }
        if branches.allSatisfy({ generatedKeys([$0]) != nil }) {
            // Collections of the same, as the messages of rooms are, or lists of different things.
            let inner = branches.flatMap { $0.children.prefix(3).map(\.node) }
            let share = branches.count <= fewLists ? most : alike
            return inner.allSatisfy(\.isBranch) ? haveFieldsInCommon(inner, share) : areOfOneType(inner)
        }
        // Collections again, under names: whoever types in which room.
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

/// What a key looks like: a name that somebody gave, or one of those that programs make.
enum KeyKind: Sendable, Hashable {
    case name
    /// A whole number, as an array's index or a database's id.
    case number
    case pushID
    case uuid
    /// A day, a month, a week.
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

    /// `2026-01`, `2026-W05`.
    private static func isMonthOrWeek(_ bytes: [UInt8]) -> Bool {
        guard bytes.count == 7 || bytes.count == 8, bytes[4] == UInt8(ascii: "-") else { return false }
        let rest = bytes.count == 8 ? bytes[6...] : bytes[5...]
        return bytes[..<4].allSatisfy(isDigit) && rest.allSatisfy(isDigit)
            && (bytes.count == 7 || bytes[5] == UInt8(ascii: "W"))
    }

    /// What random bytes become in hexadecimal or Base64: the ids of users and documents.
    private static func isToken(_ bytes: [UInt8]) -> Bool {
        guard bytes.count >= 16, bytes.allSatisfy(isOfPushIDs) else { return false }
        let digits = bytes.count(where: isDigit)
        return digits >= 2 && digits < bytes.count
            && (bytes.count >= 20 || bytes.allSatisfy { isDigit($0) || (0x61...0x66).contains($0 | 0x20) })
    }
}
