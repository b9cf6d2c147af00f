import Crypto

/// A caller of one limit as gateways name it to one another: not by who it is, which others who listen on the database's channel
/// need not know.
struct LimitedCaller: Hashable, Sendable {
    private let high: UInt64
    private let low: UInt64

    init(_ kind: RateLimiter.Kind, _ name: String) {
        let digest = Digest.sha256(Array("\(kind.rawValue) \(name)".utf8))
        func word(_ start: Int) -> UInt64 { digest[start..<(start + 8)].reduce(0) { $0 << 8 | UInt64($1) } }
        high = word(0)
        low = word(8)
    }

    /// Reads `text`; nil for any other text.
    init?(_ text: Substring) {
        guard text.utf8.count == 32, text.utf8.allSatisfy({ Self.digits.contains($0) }),
            let high = UInt64(text.prefix(16), radix: 16), let low = UInt64(text.dropFirst(16), radix: 16)
        else { return nil }
        self.high = high
        self.low = low
    }

    /// 32 hexadecimal digits.
    var text: String { Self.hex(high) + Self.hex(low) }

    private static let digits = Set("0123456789abcdef".utf8)

    private static func hex(_ number: UInt64) -> String {
        let text = String(number, radix: 16)
        return String(repeating: "0", count: 16 - text.utf8.count) + text
    }
}

/// What callers have used of a limit at one gateway since it last told the others: `used KIND CALLER=AMOUNT …`.
struct UseNotice: Hashable, Sendable {
    struct Amount: Hashable, Sendable {
        let caller: LimitedCaller
        let amount: Int
    }

    let kind: RateLimiter.Kind
    let amounts: [Amount]

    /// The most callers of one notice: it has to fit into what PostgreSQL carries.
    static let most = 120
    /// More than this of one caller at once is no use that anybody could have had.
    private static let mostOfOne = 1 << 40

    init(_ kind: RateLimiter.Kind, _ amounts: [Amount]) {
        self.kind = kind
        self.amounts = amounts
    }

    /// Nil when it is something else.
    init?(_ text: String) {
        let parts = text.split(separator: " ", omittingEmptySubsequences: false)
        guard parts.first == "used", (3...(Self.most + 2)).contains(parts.count),
            let kind = RateLimiter.Kind(rawValue: String(parts[1]))
        else { return nil }
        var amounts: [Amount] = []
        for part in parts.dropFirst(2) {
            let sides = part.split(separator: "=", omittingEmptySubsequences: false)
            guard sides.count == 2, let caller = LimitedCaller(sides[0]), let amount = Int(sides[1]),
                (1...Self.mostOfOne).contains(amount)
            else { return nil }
            amounts.append(Amount(caller: caller, amount: amount))
        }
        self.init(kind, amounts)
    }

    var text: String {
        let callers = amounts.map { "\($0.caller.text)=\(min($0.amount, Self.mostOfOne))" }
        return "used \(kind.rawValue) \(callers.joined(separator: " "))"
    }
}
