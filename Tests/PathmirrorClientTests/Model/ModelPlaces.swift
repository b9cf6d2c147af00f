import Tree

/// Where a round of the model writes, below its own place.
enum ModelPlaces {
    /// Where everybody writes anything.
    static let open = Key("open")
    /// Two values that are always written together.
    static let pair = Key("pair")
    /// Counted up by transactions.
    static let count = Key("count")
    /// Counted up by increments.
    static let hits = Key("hits")
    /// Written when a connection ends.
    static let gone = Key("gone")
    /// Written last, to know that all before has come.
    static let barrier = Key("barrier")
    /// What the rules refuse to everybody.
    static let shut = Key("shut")
    static let marks = Key("marks")

    /// For the test's gateway: everything may be written but `shut`, and nothing may be `no`.
    static var rules: String {
        let valid = #"".validate": "newData.val() !== 'no'""#
        let index = #"".indexOn": ["n", ".value"]"#
        var below = "\(valid)"
        for depth in (0..<5).reversed() {
            below = "\(valid), \(depth < 3 ? index + ", " : "")\"$v\(depth)\": {\(below)}"
        }
        return """
            "model": {"$round": {".read": true, \(index), "shut": {}, "$area": {".write": true, \(below)}}}
            """
    }
}
