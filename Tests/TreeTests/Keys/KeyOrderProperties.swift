import Testing
import Tree

/// Compares the order of random keys with a slow implementation of the protocol's definition (6.2).
struct KeyOrderProperties {
    /// Parses `-?0*\d{1,10}` within 32 bits.
    private func integer(_ text: String) -> Int64? {
        var digits = Substring(text)
        if digits.hasPrefix("-") { digits = digits.dropFirst() }
        guard !digits.isEmpty, digits.allSatisfy({ "0123456789".contains($0) && $0.utf8.count == 1 }) else {
            return nil
        }
        let significant = digits.drop { $0 == "0" }
        guard significant.count <= 10, let magnitude = Int64("0" + significant) else { return nil }
        let value = text.hasPrefix("-") ? -magnitude : magnitude
        return Int32(exactly: value).map(Int64.init)
    }

    private func isBefore(_ left: String, _ right: String) -> Bool {
        switch (integer(left), integer(right)) {
        case (let first?, let second?):
            if first != second { return first < second }
            if left.utf8.count != right.utf8.count { return left.utf8.count < right.utf8.count }
            return left.utf16.lexicographicallyPrecedes(right.utf16)
        case (.some, nil): return true
        case (nil, .some): return false
        case (nil, nil): return left.utf16.lexicographicallyPrecedes(right.utf16)
        }
    }

    private func text(_ random: inout SeededGenerator) -> String {
        let scalars: [String] = [
            "-", "0", "1", "9", "5", "a", "b", "A", "_", " ", "é", "\u{301}", "\u{7FF}", "\u{800}", "\u{D7FF}",
            "\u{E000}", "\u{FF5E}", "\u{FFFF}", "\u{10000}", "😀", "\u{10FFFF}", "+", ".", "\u{0}", "\u{7F}",
        ]
        let isNumber = random.oneIn(2)
        return (0..<random.below(isNumber ? 13 : 20)).map { _ in
            isNumber ? scalars[random.below(random.oneIn(9) ? 6 : 5)] : random.pick(scalars)
        }.joined()
    }

    @Test(arguments: 1..<9 as Range<UInt64>)
    func `two keys stand as the protocol says`(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        for _ in 0..<4_000 {
            let left = text(&random)
            var right = text(&random)
            // Long common prefixes, as eight bytes are compared at a time.
            if random.oneIn(3) { right = left + right }
            let order = Key(left).order(against: Key(right)).signum()
            let isSame = Array(left.utf8) == Array(right.utf8)
            #expect(
                order == (isSame ? 0 : isBefore(left, right) ? -1 : 1),
                "\(left.debugDescription) \(right.debugDescription)")
            #expect(order == -Key(right).order(against: Key(left)).signum())
            #expect((Key(left) == Key(right)) == isSame)
            if isSame { #expect(Key(left).hashValue == Key(right).hashValue) }
            #expect(Key(left).integerValue.map(Int64.init) == integer(left), "\(left.debugDescription)")
        }
    }

    @Test(arguments: 20..<26 as Range<UInt64>)
    func `sorting children sorts keys`(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let texts = (0..<300).map { _ in text(&random) }
        let node = Node(children: texts.map { (Key($0), Node.int(1)) })
        var distinct: [String] = []
        for text in texts.sorted(by: isBefore) where distinct.last.map({ !$0.hasSameBytes(as: text) }) ?? true {
            distinct.append(text)
        }
        #expect(node.keys.map { Array($0.utf8) } == distinct.map { Array($0.utf8) })
    }
}
