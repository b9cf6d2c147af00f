/// Pages for `man`: one of the program, one of each command.
enum ManualPage {
    /// The page's name, and its file's name without `.1`: `pathmirror-log-ls`.
    static func name(of command: CommandSpecification) -> String {
        (["pathmirror"] + command.words).joined(separator: "-")
    }

    /// The program's page, with all commands.
    static func overview(_ tree: CommandTree, version: String) -> String {
        var text = heading("pathmirror", version)
        text += section("NAME")
        text += "pathmirror \\- a replication gateway between the Firebase Realtime Database protocols and PostgreSQL\n"
        text += section("SYNOPSIS")
        text += ".B pathmirror\n.I COMMAND\n.RI [ OPTION \" ...]\"\n"
        text += section("DESCRIPTION")
        text += escaped("'pathmirror dev' runs a gateway with a PostgreSQL of its own, for development; ")
        text += escaped("'pathmirror serve' runs one for an existing database.") + "\n"
        text +=
            ".PP\n"
            + escaped("'pathmirror help COMMAND' lists a command's options; each command also has a manual page.")
        text += "\n" + section("COMMANDS")
        for command in tree.specifications {
            text += ".TP\n.BR \(escaped(name(of: command))) (1)\n\(escaped(command.summary))\n"
        }
        text += section("ENVIRONMENT")
        text += escaped(
            "Every option can be given as --name VALUE, as PATHMIRROR_NAME in the environment, or, for dev and serve, in a file of 'name = value' lines. The command line has precedence over the environment, and the environment over the file."
        )
        return text + "\n" + exits()
    }

    /// A command's page.
    static func page(_ command: CommandSpecification, version: String) -> String {
        var text = heading(name(of: command), version)
        text += section("NAME") + "\(escaped(name(of: command))) \\- \(escaped(command.summary))\n"
        text += section("SYNOPSIS") + ".B pathmirror \(escaped(command.name))\n"
        for name in command.positionals { text += ".I \(escaped(name))\n" }
        if !command.options.isEmpty { text += ".RI [ OPTION \" ...]\"\n" }
        if !command.notes.isEmpty {
            text += section("DESCRIPTION") + command.notes.map { escaped($0) + "\n" }.joined(separator: ".PP\n")
        }
        if !command.options.isEmpty {
            text += section("OPTIONS")
            for option in command.options {
                text += ".TP\n"
                if let value = option.value {
                    text += ".BI \(escaped("--\(option.name)")) \" \(escaped(value))\"\n"
                } else {
                    text += ".B \(escaped("--\(option.name)"))\n"
                }
                text += escaped(option.help) + "\n"
            }
            text += section("ENVIRONMENT") + escaped(command.environmentNote) + "\n"
        }
        return text + exits() + section("SEE ALSO") + ".BR pathmirror (1)\n"
    }

    private static func heading(_ name: String, _ version: String) -> String {
        ".\\\" Made by 'pathmirror man'.\n"
            + ".TH \(escaped(name.uppercased())) 1 \"\" \"pathmirror \(escaped(version))\" Pathmirror\n"
    }

    private static func section(_ name: String) -> String { ".SH \(name)\n" }

    private static func exits() -> String {
        section("EXIT STATUS")
            + escaped(
                "0: success. 1: the command failed, or found a problem. 2: wrong usage.")
            + "\n"
    }

    /// Escapes characters with a meaning in troff. Characters beyond ASCII become numbers, so that the page does not depend on the
    /// reader's encoding.
    private static func escaped(_ text: String) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\\": result += "\\e"
            case "-": result += "\\-"
            case "'": result += "\\(aq"
            case "`": result += "\\(ga"
            case "\"": result += "\\(dq"
            case "~": result += "\\(ti"
            case "^": result += "\\(ha"
            case _ where scalar.isASCII: result.unicodeScalars.append(scalar)
            default:
                let digits = String(scalar.value, radix: 16, uppercase: true)
                result += "\\[u\(String(repeating: "0", count: max(0, 4 - digits.count)))\(digits)]"
            }
        }
        // troff reads a line that begins with a dot as a request.
        return result.hasPrefix(".") ? "\\&" + result : result
    }
}
