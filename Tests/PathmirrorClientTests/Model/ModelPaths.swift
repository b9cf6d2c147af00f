import Tree

/// The keys to which a round of the model writes, below its own path.
enum ModelPaths {
    /// Written by all clients with any values.
    static let open = Key("open")
    /// Two values that are always written together.
    static let pair = Key("pair")
    /// Incremented by transactions.
    static let count = Key("count")
    /// Incremented by increments.
    static let hits = Key("hits")
    /// Written when a connection ends.
    static let gone = Key("gone")
    /// Written last, to detect that all earlier writes have arrived.
    static let barrier = Key("barrier")
    /// Data that the rules let no client write.
    static let shut = Key("shut")
    static let marks = Key("marks")

    /// The rules of the test's gateway: everything may be written but `shut`, and no value may be `no`.
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
