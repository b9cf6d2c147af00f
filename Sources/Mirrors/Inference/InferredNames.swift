import Tree

/// Derives names for tables, columns and keys from the keys of the tree.
enum InferredNames {
    /// Leaves space for suffixes and the names of indexes in PostgreSQL's 63 bytes.
    private static let maxBytes = 50

    /// Returns a column's name: `author/firstName` becomes `author_first_name`. Letters of all scripts are kept.
    static func column(_ keys: [Key]) -> String {
        var name = ""
        for key in keys {
            if !name.isEmpty, !name.hasSuffix("_") { name += "_" }
            append(key.text, to: &name)
        }
        while name.utf8.count > maxBytes { name.removeLast() }
        while name.hasSuffix("_") { name.removeLast() }
        return name
    }

    /// Returns names for the columns of some paths, in the same order. Keys that are valid names are kept.
    ///
    /// - Parameter taken: the names in use. The new names are added.
    static func columns(_ paths: [Path], besides taken: inout Set<String>) -> [String] {
        let wanted = paths.map { path -> String in
            guard !path.isRoot else { return "value" }
            let name = column(path.keys)
            if name.isEmpty { return "column" }
            return MirrorDefinition.systemColumns.contains(name) ? "\(name)_value" : name
        }
        var names = wanted
        let isKept = { (index: Int) in paths[index].keys.map(\.text) == [wanted[index]] }
        for index in paths.indices where isKept(index) { names[index] = unused(wanted[index], &taken) }
        for index in paths.indices where !isKept(index) { names[index] = unused(wanted[index], &taken) }
        return names
    }

    private static func append(_ text: String, to name: inout String) {
        var lastWasLower = false
        for scalar in text.unicodeScalars {
            let properties = scalar.properties
            if properties.isUppercase {
                if lastWasLower { name += "_" }
                name += properties.lowercaseMapping
                lastWasLower = false
            } else if properties.isAlphabetic || properties.numericType != nil
                || properties.canonicalCombiningClass != .notReordered
            {
                name.unicodeScalars.append(scalar)
                lastWasLower = true
            } else {
                if !name.isEmpty, !name.hasSuffix("_") { name += "_" }
                lastWasLower = false
            }
        }
    }

    /// Returns the singular, such as `story` for `stories`.
    static func singular(_ name: String) -> String {
        if name.hasSuffix("ies"), name.count > 4 { return name.dropLast(3) + "y" }
        for ending in ["sses", "xes", "ches", "shes"] where name.hasSuffix(ending) { return String(name.dropLast(2)) }
        // `address`, `status` and `analysis` are not plurals.
        guard name.hasSuffix("s"), name.count > 2 else { return name }
        return ["ss", "us", "is"].contains(where: name.hasSuffix) ? name : String(name.dropLast())
    }

    /// Returns a capture's name: `post_id` for the children of `posts`, `item_index` for those of an array.
    static func capture(of name: String, _ keys: Shape.Keys) -> String {
        let suffix =
            switch keys {
            case .index: "index"
            case .date: "date"
            case .other: "id"
            }
        return name.isEmpty ? suffix : "\(singular(name))_\(suffix)"
    }

    /// Returns a mirror's name in ASCII, because it is used in command lines.
    static func mirror(_ table: String) -> String {
        let name = String(table.unicodeScalars.filter { $0.isASCII }.map(Character.init))
        return name.contains { $0 != "_" } ? name : "records"
    }

    /// Returns the name, with a number if it is taken, and adds it to `taken`.
    static func unused(_ name: String, _ taken: inout Set<String>) -> String {
        var unused = name
        var number = 2
        while !taken.insert(unused).inserted {
            unused = "\(name)_\(number)"
            number += 1
        }
        return unused
    }
}

/// Assigns unique names to proposed mirrors and their tables. They also differ from those of existing mirrors of other records.
struct MirrorNames {
    /// An existing mirror.
    struct Known {
        let name: String
        let table: String
        /// Whether the table is in the database and the schema of proposed tables.
        let sharesSchema: Bool
        let isOfNamespace: Bool
        let pattern: PathPattern
    }

    /// The names in use, and the next number for each name.
    private struct Pool {
        var taken: Set<String> = []
        var next: [String: Int] = [:]

        /// Returns the existing name `before` if it is free, or else the wanted name, with a number if needed. `isOther`
        /// returns whether a name belongs to another mirror.
        mutating func unused(_ name: String, before: String?, _ isOther: (String) -> Bool) -> String {
            if let before, taken.insert(before).inserted { return before }
            var unused = name
            var number = next[name] ?? 2
            while isOther(unused) || !taken.insert(unused).inserted {
                unused = "\(name)_\(number)"
                number += 1
            }
            next[name] = number
            return unused
        }
    }

    private var mirrors = Pool()
    private var tables = Pool()
    private let byName: [String: [Known]]
    private let byTable: [String: [Known]]
    /// The namespace's mirrors by their patterns.
    private let byPattern: [String: [Known]]

    init(besides known: [Known]) {
        let own = known.filter(\.isOfNamespace)
        byName = Dictionary(grouping: own, by: \.name)
        byTable = Dictionary(grouping: known.filter(\.sharesSchema), by: \.table)
        byPattern = Dictionary(grouping: own, by: \.pattern.description)
    }

    /// Returns a name for the table of these records, preferably that of an existing mirror of them.
    mutating func unusedTable(_ name: String, _ pattern: PathPattern) -> String {
        let others = byTable
        let before = before(pattern, name, \.table) { $0.sharesSchema }
        return tables.unused(name, before: before) {
            others[$0]?.contains { !$0.isOfNamespace || $0.pattern != pattern } ?? false
        }
    }

    /// Returns a name for the mirror of these records, preferably that of an existing one.
    mutating func unusedMirror(_ name: String, _ pattern: PathPattern) -> String {
        let others = byName
        let before = before(pattern, name, \.name)
        return mirrors.unused(name, before: before) { others[$0]?.contains { $0.pattern != pattern } ?? false }
    }

    /// Returns the name of an existing mirror of these records if it is `name`, or that with a number.
    private func before(
        _ pattern: PathPattern, _ name: String, _ part: KeyPath<Known, String>,
        where isUsable: (Known) -> Bool = { _ in true }
    ) -> String? {
        let names = byPattern[pattern.description]?.filter(isUsable).map { $0[keyPath: part] } ?? []
        return names.first { one in
            one == name || one.hasPrefix("\(name)_") && Int(one.dropFirst(name.count + 1)) != nil
        }
    }
}
