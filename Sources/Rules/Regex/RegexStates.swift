/// Builds the deterministic automaton of a pattern, as far as it is small. RE2 builds the states of the same automaton while it
/// reads a text. If all of them fit into its cache, a unit of text takes the same time with any pattern. Otherwise RE2 may have
/// to try all active instructions at each unit.
struct RegexStates {
    private struct TooMany: Error {}

    /// A part of the pattern: the positions at which a match of it may begin and end. A position is a unit of the pattern.
    private struct Part {
        var isEmptyMatched: Bool
        var first: [Int32] = []
        var last: [Int32] = []
    }

    /// The number of steps left, which bounds the time.
    private var work: Int
    /// The distinct sets of units, and the index of each position's set. Position 0 is the start.
    private var sets: [UnitSet] = []
    private var setOfPosition: [Int] = [-1]
    private var following: [[Int32]] = [[]]

    /// Returns the bytes of the states in RE2's cache, or nil if they exceed the limit for a pattern of this size; and the
    /// steps that this took.
    static func bytes(
        _ syntax: RegexSyntax, isAnchoredAtStart: Bool, isAnchoredAtEnd: Bool, size: Int
    ) -> (bytes: Int?, work: Int) {
        let work = min(2048 + 32 * size, 100_000)
        var states = RegexStates(work: work)
        let bytes = try? states.bytes(
            syntax, isAnchoredAtStart: isAnchoredAtStart, isAnchoredAtEnd: isAnchoredAtEnd, size: size)
        return (bytes, work - max(0, states.work))
    }

    private mutating func bytes(
        _ syntax: RegexSyntax, isAnchoredAtStart: Bool, isAnchoredAtEnd: Bool, size: Int
    ) throws(TooMany) -> Int {
        let part = try add(syntax)
        following[0] = part.first
        var isFinal = Array(repeating: false, count: following.count)
        for position in part.last { isFinal[Int(position)] = true }
        isFinal[0] = part.isEmptyMatched
        return try bytes(
            isFinal, search: !isAnchoredAtStart, endsEarly: !isAnchoredAtEnd, most: (64 << 10) + 64 * size)
    }

    private init(work: Int) { self.work = work }

    private mutating func spend(_ steps: Int) throws(TooMany) {
        work -= steps
        if work < 0 { throw TooMany() }
    }

    // MARK: Positions

    private mutating func add(_ syntax: RegexSyntax) throws(TooMany) -> Part {
        try spend(1)
        switch syntax {
        case .empty: return Part(isEmptyMatched: true)
        case .nothing: return Part(isEmptyMatched: false)
        case .units(let units):
            let position = Int32(following.count)
            setOfPosition.append(try index(of: units))
            following.append([])
            return Part(isEmptyMatched: false, first: [position], last: [position])
        case .sequence(let items):
            var part = Part(isEmptyMatched: true)
            for item in items { part = try joined(part, try add(item)) }
            return part
        case .choice(let branches):
            var part = Part(isEmptyMatched: false)
            for branch in branches {
                let branch = try add(branch)
                try spend(branch.first.count + branch.last.count)
                part.isEmptyMatched = part.isEmptyMatched || branch.isEmptyMatched
                part.first += branch.first
                part.last += branch.last
            }
            return part
        case .repeated(let item, let low, let high): return try repeated(item, low, high)
        }
    }

    private mutating func index(of units: UnitSet) throws(TooMany) -> Int {
        try spend(sets.count)
        if let index = sets.firstIndex(of: units) { return index }
        guard sets.count < 64 else { throw TooMany() }
        sets.append(units)
        return sets.count - 1
    }

    private mutating func connect(_ positions: [Int32], _ next: [Int32]) throws(TooMany) {
        try spend(positions.count * next.count + 1)
        for position in positions { following[Int(position)] += next }
    }

    private mutating func joined(_ part: Part, _ next: Part) throws(TooMany) -> Part {
        try connect(part.last, next.first)
        try spend(part.first.count + part.last.count)
        return Part(
            isEmptyMatched: part.isEmptyMatched && next.isEmptyMatched,
            first: part.isEmptyMatched ? part.first + next.first : part.first,
            last: next.isEmptyMatched ? part.last + next.last : next.last)
    }

    /// Adds the copies of a repetition. Each copy follows only the one before it.
    private mutating func repeated(_ item: RegexSyntax, _ low: Int, _ high: Int?) throws(TooMany) -> Part {
        var copy = try add(item)
        // If the item can match the empty text, no copy of it is required.
        let required = copy.isEmptyMatched ? 0 : low
        var part = Part(isEmptyMatched: required == 0, first: copy.first, last: required > 1 ? [] : copy.last)
        let copies = high ?? max(required, 1)
        for number in stride(from: 2, through: copies, by: 1) {
            let next = try add(item)
            try connect(copy.last, next.first)
            copy = next
            if number >= required { part.last += copy.last }
        }
        if high == nil { try connect(copy.last, copy.first) }
        return part
    }

    // MARK: States

    /// Units that no set distinguishes form a class. A class is a bit of a mask.
    private struct Classes {
        /// The classes of each set.
        var ofSet: [UInt64] = []
        /// The classes that can follow a high byte, for each high byte that differs.
        var rows: [UInt64] = []
        /// An upper bound of the ranges of bytes that RE2 distinguishes.
        var ranges = 0
    }

    private mutating func classes() throws(TooMany) -> Classes {
        var bounds: Set<Int> = [0, 0x1_0000]
        for set in sets {
            try spend(2 * set.ranges.count)
            for range in set.ranges { bounds.formUnion([Int(range.lowerBound), Int(range.upperBound) + 1]) }
        }
        let cuts = bounds.sorted()
        try spend(cuts.count * (sets.count + 1))
        var result = Classes(ofSet: Array(repeating: 0, count: sets.count))
        var numbers: [UInt64: Int] = [:]
        var rows: [Int: UInt64] = [:]
        var whole: Set<UInt64> = []
        for (begin, end) in zip(cuts, cuts.dropFirst()) {
            var members: UInt64 = 0
            for (index, set) in sets.enumerated() where set.contains(UInt16(begin)) { members |= 1 << UInt64(index) }
            let number = numbers[members] ?? numbers.count
            guard number < 64 else { throw TooMany() }
            if numbers.updateValue(number, forKey: members) == nil {
                for index in sets.indices where members >> UInt64(index) & 1 == 1 {
                    result.ofSet[index] |= 1 << UInt64(number)
                }
            }
            let (first, last) = (begin >> 8, (end - 1) >> 8)
            for high in Set([first, last]) {
                if begin <= high << 8, end >= (high + 1) << 8 {
                    whole.insert(1 << UInt64(number))
                } else {
                    rows[high, default: 0] |= 1 << UInt64(number)
                }
            }
            if last - first > 1 { whole.insert(1 << UInt64(number)) }
        }
        result.rows = Array(rows.values) + whole
        result.ranges = min(256, 2 * cuts.count + 1)
        return result
    }

    private mutating func bytes(
        _ isFinal: [Bool], search: Bool, endsEarly: Bool, most: Int
    ) throws(TooMany) -> Int {
        let classes = try classes()
        // RE2 creates no cache that has space for fewer than 20 states.
        let stateBytes = 96 + 8 * (classes.ranges + 1)
        var bytes = 20 * stateBytes
        var states: Set<[Int32]> = [[0]]
        var open: [[Int32]] = [[0]]
        var isEntered = Array(repeating: false, count: following.count)
        while let state = open.popLast() {
            var next: [Int: [Int32]] = [:]
            var live: UInt64 = search ? .max : 0
            var entered: [Int32] = []
            for position in state {
                let positions = following[Int(position)]
                try spend(positions.count)
                for position in positions {
                    if !isEntered[Int(position)] { entered.append(position) }
                    isEntered[Int(position)] = true
                }
            }
            entered.sort()
            for position in entered {
                isEntered[Int(position)] = false
                let classes = classes.ofSet[setOfPosition[Int(position)]]
                live |= classes
                try spend(classes.nonzeroBitCount)
                var left = classes
                while left != 0 {
                    next[left.trailingZeroBitCount, default: search ? [0] : []].append(position)
                    left &= left - 1
                }
            }
            // The state, and the states between the two bytes of a unit.
            let between = classes.rows.count { $0 & live != 0 }
            bytes += (1 + between) * (stateBytes + 12 * state.count)
            guard bytes <= most else { throw TooMany() }
            try spend(8 + classes.rows.count)
            for target in next.values {
                try spend(target.count)
                // Later units can't change the result.
                if endsEarly, target.contains(where: { isFinal[Int($0)] }) { continue }
                if states.insert(target).inserted { open.append(target) }
            }
        }
        return bytes
    }
}
