/// A row of docs/reference/errors.md: the stable code of an error, its cause and its fix. Text and status are those of the sources.
struct ErrorRow {
    let code: String
    /// The texts of the error in the sources, with `…` for interpolations. A text that ends with `…` stands for all texts that begin in
    /// the same way and have no row of their own.
    let texts: [String]
    let cause: String
    let fix: String

    init(_ code: String, _ texts: String..., cause: String, fix: String) {
        self.code = code
        self.texts = texts
        self.cause = cause
        self.fix = fix
    }

    /// Returns the length of the row's text that a text matches; nil if it matches none.
    func match(_ text: String) -> Int? {
        texts.compactMap { pattern -> Int? in
            if pattern == text { return .max }
            guard pattern.count > 5, pattern.hasSuffix("…"), text.hasPrefix(pattern.dropLast()) else { return nil }
            return pattern.count
        }.max()
    }
}

/// The rows about one subject.
struct ErrorSection {
    let title: String
    let introduction: String
    let rows: [ErrorRow]
}

extension [ErrorSection] {
    var rows: [ErrorRow] { flatMap(\.rows) }

    /// Returns the code of the row about a text: the row with the same text, or the row with the longest beginning of it.
    func code(of text: String) -> String? {
        rows.compactMap { row in row.match(text).map { (row.code, $0) } }.max { $0.1 < $1.1 }?.0
    }

    /// The texts of the rows that none of the errors has.
    func unused(by errors: [SentError]) -> [String] {
        rows.flatMap { row in
            row.texts.filter { text in
                !errors.contains {
                    code(of: $0.text) == row.code && ErrorRow(row.code, text, cause: "", fix: "").match($0.text) != nil
                }
            }
        }
    }
}
