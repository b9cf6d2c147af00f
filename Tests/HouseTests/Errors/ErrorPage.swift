/// Prints docs/reference/errors.md.
enum ErrorPage {
    static func printed() -> String {
        var text = """
            # Errors

            This page lists the errors that Pathmirror reports, with cause and fix: over HTTP, on realtime connections and from commands.
            Texts and statuses are printed from the source code; `…` stands for a value.

            - The **code** is the stable name of an error on this page, in issues and in the [changelog](../../CHANGELOG.md).
              Texts may become clearer in later versions; a code keeps its meaning.
              The same code names the same cause over HTTP, on realtime connections and in commands.
            - HTTP clients receive the status and `{"error":"TEXT"}` in the form of `print=pretty`, as from Firebase.
            - Realtime clients receive the status of the protocol and the text.
            - Scripts receive the [exit code](#exit-codes) of a command, and the message on standard error.
            - [Log events](log-events.md) lists the log lines, and [SQLSTATEs](sqlstates.md) the errors of SQL functions.

            A request that fails has written nothing.
            Only `outcome_unknown` leaves open whether the write was committed.


            """
        for (sections, errors) in [
            (HTTPErrorTable.sections, ErrorSources.http()), (RealtimeErrorTable.sections, ErrorSources.realtime()),
        ] {
            for section in sections {
                text += "## \(section.title)\n\n\(section.introduction.replacing(". ", with: ".\n"))\n\n"
                text += "| code | status | text | cause | fix |\n| --- | --- | --- | --- | --- |\n"
                for row in section.rows {
                    let statuses = Set(errors.filter { sections.code(of: $0.text) == row.code }.map(\.status))
                    let shown = statuses.sorted().map { Int($0) != nil || $0 == ErrorSources.closed ? $0 : "`\($0)`" }
                    text +=
                        "| `\(row.code)` | \(shown.joined(separator: ", ")) | \(quoted(row.texts)) | \(row.cause) | \(row.fix) |\n"
                }
                text += "\n"
            }
        }
        return text + printedCommands()
    }

    private static func printedCommands() -> String {
        var text = """
            ## Exit codes

            A message on standard error begins with `pathmirror:`, and states the failure and its remedy.

            | exit code | meaning | reaction |
            | --- | --- | --- |

            """
        for row in CommandErrorTable.exitCodes { text += "| \(row.code) | \(row.meaning) | \(row.reaction) |\n" }
        text += """

            ## Messages of commands

            The errors below have a type in the code, and several commands share them; all exit with 1 (`diff`: 2).
            The message of any other failure describes a mistake in an argument, a file or a definition.

            """
        for type in CommandErrorTable.types {
            text += "\n### \(type.title)\n\n| code | text | cause | fix |\n| --- | --- | --- | --- |\n"
            let texts = SourceTexts.cases(of: "description", of: type.name, in: type.file)
            for name in SourceTexts.declaredCases(of: type.name, in: type.file) {
                guard let row = type.rows[name] else { continue }
                let shown = texts.filter { $0.name == name }.map { $0.text.replacing("……", with: "…") }
                text += "| `\(row.code)` | \(quoted(shown)) | \(row.cause) | \(row.fix) |\n"
            }
        }
        return text
    }

    /// Returns texts as code in a table.
    private static func quoted(_ texts: [String]) -> String {
        texts.filter { !$0.isEmpty }.map { "`\($0)`" }.joined(separator: " · ")
    }
}
