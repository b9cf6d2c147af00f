/// What the program says of its commands: of all, of a group, of one; and of words that are none.
enum CommandHelp {
    static let tree = CommandTree(specifications: Commands.all.map { $0.specification })

    /// All commands.
    static func overview() -> String {
        var text =
            "Pathmirror: a replication gateway between the Firebase Realtime Database protocols and PostgreSQL.\n\n"
        text += "usage: pathmirror COMMAND [OPTION …]\n\n"
        let width = tree.specifications.map(\.name.count).max() ?? 0
        for specification in tree.specifications {
            let name = specification.name
            text += "  \(name)\(String(repeating: " ", count: width + 2 - name.count))\(specification.summary)\n"
        }
        text +=
            "\n'pathmirror help COMMAND' lists a command's options. Every option can be given as --name VALUE, in the\n"
        text += "environment as PATHMIRROR_NAME, or in a file of 'name = value' lines named by --config."
        return text
    }

    /// The commands whose names begin with these words, such as `feed` or `feed dead`; nil where none does.
    static func group(_ name: String) -> String? {
        let members = tree.specifications.filter { $0.name.hasPrefix("\(name) ") }
        guard !members.isEmpty else { return nil }
        var text = "usage: pathmirror \(name) COMMAND [OPTION …]\n"
        let left = members.map { ([$0.name] + $0.positionals).joined(separator: " ") }
        let width = left.map(\.count).max() ?? 0
        for (left, member) in zip(left, members) {
            text += "\n  \(left)\(String(repeating: " ", count: width + 2 - left.count))\(member.summary)"
        }
        return text
    }

    /// What is said of words that name no command, with what may have been meant.
    ///
    /// - Returns: the text, and whether it was asked for as help.
    static func unknown(_ arguments: [String]) -> (text: String, isHelp: Bool) {
        let words = Array(arguments.prefix { !$0.hasPrefix("-") })
        for count in stride(from: words.count, to: 0, by: -1) {
            let name = words.prefix(count).joined(separator: " ")
            guard let group = group(name) else { continue }
            guard let next = arguments.dropFirst(count).first else { return (group, false) }
            if ["--help", "-h", "help"].contains(next) { return (group, true) }
            let nearest = NearestWord.question(tree.nearest(Array(words)))
            return ("pathmirror: there is no command \"\(name) \(next)\".\(nearest)\n\n\(group)", false)
        }
        let nearest = NearestWord.question(tree.nearest(words.isEmpty ? Array(arguments.prefix(1)) : words))
        return (
            "pathmirror: there is no command \"\(arguments[0])\".\(nearest) Try 'pathmirror --help'.", false
        )
    }
}
