/// Translates parsed regular expressions into RE2's syntax, for texts in UTF-16 with the high byte first and an engine that
/// takes each byte for a character. RE2 then sees what the original sees, units, and its syntax tree stays small: any
/// unit is two instructions.
struct RegexTranslation {
    /// The pattern for a match that begins at the start of the text.
    let pattern: String
    /// About how many instructions the pattern takes.
    let size: Int
    /// A bound on the instructions that are active at one time, which bounds the time a unit of text takes.
    let width: Int

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
    }

    /// A translated part of a pattern.
    private struct Part {
        var text: String
        /// Whether the text is a choice, which needs a group inside a sequence.
        var isChoice = false
        var size: Int
        /// The instructions that are active at one time if the part is entered once.
        var width: Int
        /// The number of units that every match has, or nil if that is not fixed.
        var length: Int?
        /// The greatest product of nested counts in RE2's syntax.
        var product = 1

        var grouped: String { isChoice ? "(?:\(text))" : text }
    }

    /// RE2 refuses nested counts whose product is larger.
    private static let maxProduct = 1000

    private static func part(_ syntax: RegexSyntax) -> Part {
        switch syntax {
        case .empty: return Part(text: "(?:)", size: 1, width: 1, length: 0)
        case .nothing: return Part(text: "[^\\x00-\\xff]", size: 1, width: 1, length: nil)
        case .units(let units):
            let pairs = UnitPairs(units)
            return Part(text: pairs.text, isChoice: pairs.isChoice, size: pairs.size, width: pairs.size, length: 1)
        case .sequence(let items): return sequence(items.map(part))
        case .choice(let branches):
            let parts = branches.map(part)
            let length = parts[0].length
            return Part(
                text: parts.map(\.text).joined(separator: "|"), isChoice: true,
                size: parts.reduce(0) { $0 + $1.size + 1 }, width: parts.reduce(0) { $0 + $1.width + 1 },
                length: parts.allSatisfy { $0.length == length } ? length : nil,
                product: parts.reduce(1) { max($0, $1.product) })
        case .repeated(let item, let low, let high): return repeated(part(item), low, high)
        }
    }

    /// Items up to the first whose length varies are active one after the other; what follows it may be entered at many
    /// places and be active as a whole.
    private static func sequence(_ items: [Part]) -> Part {
        var width = 0
        var rest: Int?
        var length: Int? = 0
        for item in items {
            if let before = rest {
                rest = before + item.size
            } else if let fixed = item.length {
                width = max(width, item.width)
                length = length.map { $0 + fixed }
                continue
            } else {
                rest = item.width
            }
            length = nil
        }
        return Part(
            text: items.map(\.grouped).joined(), size: items.reduce(0) { $0 + $1.size },
            width: max(width, rest ?? 0), length: length, product: items.reduce(1) { max($0, $1.product) })
    }

    private static func repeated(_ item: Part, _ low: Int, _ high: Int?) -> Part {
        let text = "(?:\(item.text))"
        let most = max(1, maxProduct / item.product)
        let optional = high.map { $0 - low } ?? 1
        // Each optional copy has a branch, and two forms where there are more than RE2 counts to.
        let size =
            item.size * (high == nil && low > 0 ? low - 1 : low) + (item.size + 1) * optional
            * (optional > most ? 2 : 1)
        // Copies of an item of fixed length follow one another; where some are optional, two may be active at a time.
        let width = item.length == nil ? size : 2 * item.width + 4
        let length = item.length.flatMap { low == high ? $0 * low : nil }
        func result(_ text: String, product: Int) -> Part {
            Part(text: text, size: size, width: width, length: length, product: product)
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

    /// At most `count` copies. More than RE2 counts to are fewer than that, or that many and then the others.
    private static func upTo(_ count: Int, _ text: String, _ most: Int) -> String {
        if count == 0 { return "" }
        if count <= most { return count == 1 ? "\(text)?" : "\(text){0,\(count)}" }
        let steps = (count - 1) / most
        let last = upTo(count - steps * most, text, most)
        if most == 1 {
            return String(repeating: "(?:\(text)", count: steps) + last + String(repeating: ")?", count: steps)
        }
        let fewer = most == 2 ? "\(text)?" : "\(text){0,\(most - 1)}"
        return String(repeating: "(?:\(fewer)|\(text){\(most)}", count: steps) + last
            + String(repeating: ")", count: steps)
    }
}
