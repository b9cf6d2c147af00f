/// Finds the known word that the user may have meant.
enum NearestWord {
    /// The known words nearest to `word`, in the order of `known`. Empty if none is near enough.
    static func all(_ word: String, among known: [String]) -> [String] {
        let typed = Array(word.lowercased())
        guard !typed.isEmpty, typed.count <= 64 else { return [] }
        var best = max(1, min(3, typed.count / 3)) + 1
        var nearest: [String] = []
        for candidate in known {
            let distance = distance(typed, Array(candidate.lowercased()))
            guard distance <= best, distance < max(typed.count, 2) else { continue }
            if distance < best { nearest = [] }
            best = distance
            if !nearest.contains(candidate) { nearest.append(candidate) }
        }
        // The initial bound is too far, too.
        return best > max(1, min(3, typed.count / 3)) ? [] : nearest
    }

    /// ` Did you mean "a" or "b"?`; empty if no known word is near.
    static func question(_ words: [String], quoted: Bool = true) -> String {
        guard let last = words.prefix(4).last else { return "" }
        let shown = words.prefix(4).dropLast().map { quoted ? "\"\($0)\"" : $0 }
        let end = quoted ? "\"\(last)\"" : last
        return " Did you mean \(shown.isEmpty ? end : shown.joined(separator: ", ") + " or " + end)?"
    }

    /// Returns how many characters must be inserted, removed, replaced or exchanged with their neighbor.
    static func distance(_ left: [Character], _ right: [Character]) -> Int {
        var beforeLast: [Int] = []
        var last = Array(0...right.count)
        for row in left.indices {
            var current = [row + 1]
            for column in right.indices {
                var cost = min(last[column + 1], current[column]) + 1
                cost = min(cost, last[column] + (left[row] == right[column] ? 0 : 1))
                if row > 0, column > 0, left[row] == right[column - 1], left[row - 1] == right[column] {
                    cost = min(cost, beforeLast[column - 1] + 1)
                }
                current.append(cost)
            }
            (beforeLast, last) = (last, current)
        }
        return last[right.count]
    }
}
