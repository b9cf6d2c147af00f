/// Numbers of things, as people say them.
enum Counted {
    /// `1 record`, `2 records`; `1 entry`, `0 entries`; `2 leaves`.
    static func text(_ number: some BinaryInteger, _ noun: String) -> String {
        guard number != 1 else { return "\(number) \(noun)" }
        if noun.hasSuffix("leaf") { return "\(number) \(noun.dropLast())ves" }
        let endsInConsonantAndY = noun.hasSuffix("y") && noun.dropLast().last.map { !"aeiou".contains($0) } == true
        return "\(number) " + (endsInConsonantAndY ? "\(noun.dropLast())ies" : "\(noun)s")
    }

    /// The same for what is named in the plural: `1 entry`, `2 entries`; `1 row compared`.
    static func text(_ number: some BinaryInteger, of things: String) -> String {
        guard number == 1 else { return "\(number) \(things)" }
        let noun = things.prefix { $0 != " " }
        let one = noun.hasSuffix("ies") ? "\(noun.dropLast(3))y" : noun == "leaves" ? "leaf" : "\(noun.dropLast())"
        return "\(number) \(one)\(things.dropFirst(noun.count))"
    }

    /// The same before what is done: `1 record was`, `2 records were`.
    static func text(_ number: some BinaryInteger, _ noun: String, _ one: String, _ many: String) -> String {
        "\(text(number, noun)) \(number == 1 ? one : many)"
    }
}
