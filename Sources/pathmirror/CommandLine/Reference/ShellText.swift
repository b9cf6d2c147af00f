/// Text as shells read it.
enum ShellText {
    /// In single quotes, as bash and zsh read it.
    static func quoted(_ text: String) -> String {
        "'" + text.map { $0 == "'" ? "'\\''" : String($0) }.joined() + "'"
    }

    /// In single quotes, as fish reads it.
    static func fishQuoted(_ text: String) -> String {
        "'" + text.map { $0 == "'" || $0 == "\\" ? "\\\($0)" : String($0) }.joined() + "'"
    }
}
