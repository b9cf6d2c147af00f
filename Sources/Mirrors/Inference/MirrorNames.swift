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

        /// The name, or with a number; `isOther` says which are somebody else's.
        mutating func unused(_ name: String, _ isOther: (String) -> Bool) -> String {
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

    init(besides known: [Known]) {
        byName = Dictionary(grouping: known.filter(\.isOfNamespace), by: \.name)
        byTable = Dictionary(grouping: known, by: \.table)
    }

    mutating func unusedTable(_ name: String, _ pattern: PathPattern) -> String {
        let others = byTable
        return tables.unused(name) { others[$0]?.contains { !$0.isOfNamespace || $0.pattern != pattern } ?? false }
    }

    mutating func unusedMirror(_ name: String, _ pattern: PathPattern) -> String {
        let others = byName
        return mirrors.unused(name) { others[$0]?.contains { $0.pattern != pattern } ?? false }
    }
}
