/// Translates parsed regular expressions into RE2's syntax, for texts in UTF-16 with the high byte first and an engine that
/// treats each byte as a character. RE2 then sees units, as Firebase's engine does, and its syntax tree stays small: any unit
/// is two instructions.
struct RegexTranslation {
    /// The pattern for a match that begins at the start of the text.
    let pattern: String
    /// The approximate number of instructions of the pattern.
    let size: Int
    /// An upper bound of the instructions active at one time, which bounds the time for a unit of text.
    let width: Int
    /// The bytes for all states of a deterministic automaton, or nil if there may be many states.
    let stateBytes: Int?
    /// The number of steps that the computation of `stateBytes` took.
    let work: Int

    init(_ parsed: RegexParser.Result) {
        var syntax = parsed.syntax
        if !parsed.isAnchoredAtEnd { syntax = syntax.trimmed(atStart: false) }
        if !parsed.isAnchoredAtStart { syntax = syntax.trimmed(atStart: true) }
        let part = Self.part(syntax)
        let search = parsed.isAnchoredAtStart ? "" : "(?:[\\x00-\\xff][\\x00-\\xff])*"
        let end = parsed.isAnchoredAtEnd ? "\\z" : ""
        pattern = search + part.grouped + end
        size = part.size + 4
        width = (parsed.isAnchoredAtStart ? part.width : part.size) + 4
        (stateBytes, work) = RegexStates.bytes(
            syntax, isAnchoredAtStart: parsed.isAnchoredAtStart, isAnchoredAtEnd: parsed.isAnchoredAtEnd, size: size)
    }

    /// A translated part of a pattern.
    private struct Part {
        var text: String
        /// Whether the text is a choice, which needs a group within a sequence.
        var isChoice = false
        var size: Int
        /// The number of instructions active at one time if the part is entered once.
        var width: Int
        /// The minimum and the maximum number of units of a match. The maximum is nil if there is no limit.
        var least: Int
        var greatest: Int?
        /// The greatest product of nested counts in RE2's syntax.
        var product = 1

        var grouped: String { isChoice ? "(?:\(text))" : text }
    }

    /// RE2 rejects nested counts with a larger product.
    private static let maxProduct = 1000
    /// The maximum number of optional copies in one repetition of RE2's syntax.
    private static let maxOptional = 100

    private static func part(_ syntax: RegexSyntax) -> Part {
        switch syntax {
        case .empty: return Part(text: "(?:)", size: 1, width: 1, least: 0, greatest: 0)
        case .nothing: return Part(text: "[^\\x00-\\xff]", size: 1, width: 1, least: 0, greatest: nil)
        case .units(let units):
            let pairs = UnitPairs(units)
            return Part(
                text: pairs.text, isChoice: pairs.isChoice, size: pairs.size, width: pairs.size, least: 1, greatest: 1)
        case .sequence(let items): return sequence(items.map(part))
        case .choice(let branches):
            let parts = branches.map(part)
            return Part(
                text: parts.map(\.text).joined(separator: "|"), isChoice: true,
                size: parts.reduce(0) { $0 + $1.size + 1 }, width: parts.reduce(0) { $0 + $1.width + 1 },
                least: parts.reduce(.max) { min($0, $1.least) },
                greatest: parts.reduce(0) { sum, part in sum.flatMap { sum in part.greatest.map { max(sum, $0) } } },
                product: parts.reduce(1) { max($0, $1.product) })
        case .repeated(let item, let low, let high): return repeated(part(item), low, high)
        }
    }

    /// An item is active from the first unit at which a match may reach it to the last one. If that is a range, the item
    /// may be entered at each unit of the range.
    private static func sequence(_ items: [Part]) -> Part {
        var (width, active) = (0, 0)
        // The index of the first item that is active together with the current one.
        var oldest = 0
        var ends: [Int] = []
        var widths: [Int] = []
        var first = 0
        var last: Int? = 0
        for item in items {
            let next = last.flatMap { last in item.greatest.map { last + $0 } }
            ends.append(next ?? .max)
            while oldest < widths.count, ends[oldest] <= first {
                active -= widths[oldest]
                oldest += 1
            }
            let entries = last.map { $0 - first + 1 } ?? item.size
            widths.append(min(item.size, min(entries, item.size) * item.width))
            active += widths[widths.count - 1]
            width = max(width, active)
            first += item.least
            last = next
        }
        return Part(
            text: items.map(\.grouped).joined(), size: items.reduce(0) { $0 + $1.size }, width: width, least: first,
            greatest: last, product: items.reduce(1) { max($0, $1.product) })
    }

    private static func repeated(_ item: Part, _ low: Int, _ high: Int?) -> Part {
        let text = "(?:\(item.text))"
        let most = max(1, maxProduct / item.product)
        let optional = high.map { $0 - low } ?? 1
        // Each optional copy has a branch.
        let size = item.size * (high == nil && low > 0 ? low - 1 : low) + (item.size + 1) * optional
        // Copies of an item of fixed length follow one another.
        let copies = 1 + (optional > min(most, maxOptional) ? Blocks(optional, most).rest + 1 : 0)
        let width = item.least == item.greatest ? min(size, copies * item.width + 4) : size
        let greatest = high.flatMap { high in item.greatest.map { $0 * high } }
        func result(_ text: String, product: Int) -> Part {
            Part(text: text, size: size, width: width, least: item.least * low, greatest: greatest, product: product)
        }
        switch (low, high) {
        case (0, nil): return result(text + "*", product: item.product)
        case (1, nil): return result(text + "+", product: item.product)
        case (0, 1): return result(text + "?", product: item.product)
        default: break
        }
        var output = exactly(low, text, most)
        if let high { output += upTo(high - low, text, most) } else { output += text + "*" }
        return result(output, product: item.product * min(most, max(low, high ?? 0)))
    }

    private static func exactly(_ count: Int, _ text: String, _ most: Int) -> String {
        let whole = most == 1 ? text : "\(text){\(most)}"
        let rest = count % most
        return String(repeating: whole, count: count / most) + (rest == 0 ? "" : rest == 1 ? text : "\(text){\(rest)}")
    }

    /// Returns at most `count` copies. RE2's time grows with each optional copy times the optional copies after it. Many copies
    /// are therefore written as optional blocks of copies, followed by fewer copies than a block has.
    private static func upTo(_ count: Int, _ text: String, _ most: Int) -> String {
        func few(_ count: Int) -> String {
            switch count {
            case 0: ""
            case 1: "\(text)?"
            default:
                most == 1
                    ? String(repeating: "(?:\(text)", count: count) + String(repeating: ")?", count: count)
                    : "\(text){0,\(count)}"
            }
        }
        if count <= min(most, maxOptional) { return few(count) }
        let blocks = Blocks(count, most)
        return String(repeating: "(?:" + exactly(blocks.length, text, most), count: blocks.count)
            + String(repeating: ")?", count: blocks.count) + few(blocks.length - 1) + few(blocks.rest)
    }

    /// Optional copies as blocks: `count` blocks, `length` - 1 copies, and `rest` copies.
    private struct Blocks {
        let count: Int
        let length: Int
        /// As few as possible, because these copies may begin at every position at which the copies before them may end.
        let rest: Int

        init(_ copies: Int, _ most: Int) {
            var root = 1
            while root * root <= copies { root += 1 }
            var (length, rest) = (1, 0)
            if most > 1 {
                rest = .max
                for candidate in min(most, max(2, root / 2))...min(most, root * 2) where rest > 0 {
                    let left = (copies + 1) % candidate
                    if left < rest { (length, rest) = (candidate, left) }
                }
            }
            self.length = length
            self.rest = rest
            count = (copies + 1) / length - 1
        }
    }
}
