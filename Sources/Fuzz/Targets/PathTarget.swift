import Tree
import Wire

extension FuzzTarget {
    /// Path texts, and the order of their keys.
    static let path = FuzzTarget(
        name: "path",
        corpus: [
            "", "/", "a/b/c", "//a///b/", "/a b/-1/007", "é/e\u{301}/😀/～", "-NxAbcdefghijklmnopq/.priority",
            "-0/00/0/-/--1",
            "2147483647/2147483648/-2147483648/-2147483649", "[MIN_NAME]/[MAX_KEY]", "a.b/#/$",
            "00000000000000000000001/1/01",
        ],
        tokens: [
            "/", "//", "-", "0", "1", "-0", "00", "2147483647", ".priority", "é", "😀", "～", "\u{E000}", "aaaaaaaa",
            "\0",
        ]
    ) { input, summary in
        let path = Path(splitting: String(decoding: input, as: UTF8.self))
        summary.noteSize(path.depth)
        guard Path(splitting: path.description) == path else { return "the description splits into another path" }
        if let request = try? RequestPath.parse(input[...]),
            (try? RequestPath.parse(Array(RequestPath.text(request).utf8)[...])) != request
        {
            return "the written request path reads as another"
        }
        for key in path.keys {
            if key.text.isEmpty || key.text.utf8.contains(0x2F) { return "a key that is not a part between slashes" }
            if let violation = KeyRules.violation(in: key) { summary.note(violation.reason.utf8.count) }
            if let integer = key.integerValue, Int32(key.text) != integer { return "an integer key of another value" }
        }
        // Each step costs time in proportion to the length of the path.
        let start = path.prefix(40)
        for depth in 0...start.depth {
            let above = start.prefix(depth)
            guard above.contains(start), above.appending(start.relative(to: above)) == start else {
                return "a prefix that is not an ancestor"
            }
        }
        return order(Array(path.keys.prefix(6)))
    }

    /// Checks that the order is total: any two keys have exactly one order, and are equal only if their bytes are.
    private static func order(_ keys: [Key]) -> String? {
        for first in keys {
            for second in keys {
                let order = first.order(against: second).signum()
                if order != -second.order(against: first).signum() { return "an order that is not antisymmetric" }
                if (order == 0) != (Array(first.text.utf8) == Array(second.text.utf8)) {
                    return "different keys that compare as equal"
                }
                if order == 0, first.hashValue != second.hashValue { return "equal keys with different hashes" }
                if first.integerValue == nil, second.integerValue == nil {
                    let units = first.text.utf16.lexicographicallyPrecedes(second.text.utf16)
                    if units != (order < 0) { return "another order than UTF-16's" }
                }
                for third in keys where order < 0 && second < third {
                    if !(first < third) { return "an order that is not transitive" }
                }
            }
        }
        return nil
    }
}
