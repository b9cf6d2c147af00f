import Tree

/// Names for tables, columns and keys, made from the keys of the tree.
enum InferredNames {
    /// So that suffixes and indexes' names have room in PostgreSQL's 63 bytes.
    private static let maxBytes = 50

    /// `author/firstName` becomes `author_first_name`; letters of any script stay.
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

    /// Names for the columns of these places, in their order. What is a name already keeps it.
    ///
    /// - Parameter taken: names that there are already; has these as well afterwards.
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

    /// `story` for `stories`.
    static func singular(_ name: String) -> String {
        if name.hasSuffix("ies"), name.count > 4 { return name.dropLast(3) + "y" }
        for ending in ["sses", "xes", "ches", "shes"] where name.hasSuffix(ending) { return String(name.dropLast(2)) }
        // `address`, `status`, `analysis` are no plurals.
        guard name.hasSuffix("s"), name.count > 2 else { return name }
        return ["ss", "us", "is"].contains(where: name.hasSuffix) ? name : String(name.dropLast())
    }

    /// `post_id` for the children of `posts`, `item_index` for those of an array.
    static func capture(of name: String, _ keys: Shape.Keys) -> String {
        let suffix =
            switch keys {
            case .index: "index"
            case .date: "date"
            case .other: "id"
            }
        return name.isEmpty ? suffix : "\(singular(name))_\(suffix)"
    }

    /// A mirror's name, which is for command lines: ASCII.
    static func mirror(_ table: String) -> String {
        let name = String(table.unicodeScalars.filter { $0.isASCII }.map(Character.init))
        return name.contains { $0 != "_" } ? name : "records"
    }

    /// The name, or with a number where it is taken.
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

/// The names of proposed mirrors and of their tables: none is another's, nor that of a mirror of other records that there is.
struct MirrorNames {
    /// A mirror that there is.
    struct Known {
        let name: String
        let table: String
        let isOfNamespace: Bool
        let pattern: PathPattern
    }

    /// Names that are given out, and the number that the next one like each gets.
    private struct Pool {
        var taken: Set<String> = []
        var next: [String: Int] = [:]

        /// The one that there is already, if it is free, or the name, or that with a number; `isOther` says which are somebody else's.
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
    /// Those of the namespace, by the records that they mirror.
    private let byPattern: [String: [Known]]

    init(besides known: [Known]) {
        let own = known.filter(\.isOfNamespace)
        byName = Dictionary(grouping: own, by: \.name)
        byTable = Dictionary(grouping: known, by: \.table)
        byPattern = Dictionary(grouping: own, by: \.pattern.description)
    }

    /// A name for the table of these records; the one that they have got before.
    mutating func unusedTable(_ name: String, _ pattern: PathPattern) -> String {
        let others = byTable
        let before = before(pattern, name, \.table)
        return tables.unused(name, before: before) {
            others[$0]?.contains { !$0.isOfNamespace || $0.pattern != pattern } ?? false
        }
    }

    /// A name for the mirror of these records; the one that it has got before.
    mutating func unusedMirror(_ name: String, _ pattern: PathPattern) -> String {
        let others = byName
        let before = before(pattern, name, \.name)
        return mirrors.unused(name, before: before) { others[$0]?.contains { $0.pattern != pattern } ?? false }
    }

    /// What a mirror of these records is called that has got its name in this way: the name, or with a number.
    private func before(_ pattern: PathPattern, _ name: String, _ part: KeyPath<Known, String>) -> String? {
        let names = byPattern[pattern.description]?.map { $0[keyPath: part] } ?? []
        return names.first { one in
            one == name || one.hasPrefix("\(name)_") && Int(one.dropFirst(name.count + 1)) != nil
        }
    }
}
