import Tree

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
