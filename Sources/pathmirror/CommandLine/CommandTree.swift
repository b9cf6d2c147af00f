/// The words that name commands: `log` is followed by `ls`, `show`, …
struct CommandTree {
    let specifications: [CommandSpecification]

    /// The command whose name these words begin with.
    func command(_ words: [String]) -> CommandSpecification? {
        specifications.first { words.starts(with: $0.words) }
    }

    /// What follows a name's beginning (`""` for the first word), each word once, in the order of the help.
    func words(after beginning: String) -> [String] {
        let prefix = Self.words(beginning)
        var found: [String] = []
        for specification in specifications where specification.words.starts(with: prefix) {
            guard specification.words.count > prefix.count else { continue }
            let word = specification.words[prefix.count]
            if !found.contains(word) { found.append(word) }
        }
        return found
    }

    /// Beginnings of names that more words must follow, such as `log` and `feed dead`.
    var groups: [String] {
        var found: [String] = []
        for words in specifications.map(\.words) {
            for count in words.indices.dropFirst() {
                let group = words.prefix(count).joined(separator: " ")
                if !found.contains(group) { found.append(group) }
            }
        }
        return found
    }

    /// What a word after a beginning stands for: a command's summary, or what a group's commands are.
    func summary(of name: String) -> String {
        if let command = specifications.first(where: { $0.name == name }) { return command.summary }
        return words(after: name).joined(separator: ", ")
    }

    /// Names of commands that may have been meant.
    ///
    /// - Parameter words: begin with no command's name.
    func nearest(_ words: [String]) -> [String] {
        var beginning: [String] = []
        for word in words {
            let following = self.words(after: beginning.joined(separator: " "))
            guard !following.contains(word) else {
                beginning.append(word)
                continue
            }
            let name = { (next: String) in (beginning + [next]).joined(separator: " ") }
            let near = NearestWord.all(word, among: following)
            if !near.isEmpty { return near.map(name) }
            // Whoever leaves the group out: `tail` for `log tail`.
            return specifications.filter { $0.words.starts(with: beginning) && $0.words.last == word }.map(\.name)
        }
        return []
    }

    static func words(_ name: String) -> [String] { name.split(separator: " ").map(String.init) }
}
