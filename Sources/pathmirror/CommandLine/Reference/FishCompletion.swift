/// The script by which fish completes commands, options and files, with descriptions.
enum FishCompletion {
    static func script(_ tree: CommandTree) -> String {
        let names = (tree.groups + tree.specifications.map(\.name)).map(ShellText.fishQuoted)
        var text = "# fish completion for pathmirror, made by 'pathmirror completions fish'.\n\n"
        text += "set -g __pathmirror_names \(names.joined(separator: " "))\n\n\(functions)\n"
        for beginning in [""] + tree.groups {
            let condition = condition("__pathmirror_after", beginning)
            for word in tree.words(after: beginning) {
                let name = beginning.isEmpty ? word : "\(beginning) \(word)"
                text += "\(condition) -a \(word) -d \(ShellText.fishQuoted(tree.summary(of: name)))\n"
            }
        }
        for command in tree.specifications {
            let condition = condition("__pathmirror_is", command.name)
            for option in command.options {
                let value = option.value.map { values(ValueKind($0)) } ?? ""
                text += "\(condition) -l \(option.name)\(value) -d \(ShellText.fishQuoted(option.help))\n"
            }
            text += "\(condition) -l help -d 'explains the command'\n"
            let kinds = command.positionals.map { ValueKind($0) }
            if kinds.contains(.file) { text += "\(condition) -F\n" }
            if kinds.contains(.folder) { text += "\(condition) -a '(__fish_complete_directories)'\n" }
            for case .words(let words) in kinds {
                text += "\(condition) -a \(ShellText.fishQuoted(words.joined(separator: " ")))\n"
            }
        }
        return text
    }

    private static let functions = #"""
        # Prints the typed part of the command's name, and then the number of words after it.
        function __pathmirror_typed
            set -l words (commandline -opc)[2..]
            # The names of commands are these commands' arguments.
            if contains -- "$words[1]" help man
                set -e words[1]
            end
            set -l name ''
            set -l count 0
            for word in $words
                set -l next (string trim -- "$name $word")
                if not contains -- $next $__pathmirror_names
                    break
                end
                set name $next
                set count (math $count + 1)
            end
            echo $name
            math (count $words) - $count
        end

        # Whether the words of a command's name are typed up to here, and nothing else.
        function __pathmirror_after
            set -l typed (__pathmirror_typed)
            test "$typed[1]" = "$argv[1]" -a "$typed[2]" = 0
        end

        # Whether the command line contains this command.
        function __pathmirror_is
            set -l words (commandline -opc)[2..]
            set -l typed (__pathmirror_typed)
            if contains -- "$words[1]" help man
                test "$words[1]" = "$argv[1]"
            else
                test "$typed[1]" = "$argv[1]"
            end
        end

        complete -c pathmirror -f

        """#

    private static func condition(_ function: String, _ name: String) -> String {
        "complete -c pathmirror -n \(ShellText.fishQuoted("\(function) \"\(name)\""))"
    }

    private static func values(_ kind: ValueKind) -> String {
        switch kind {
        case .free, .command: " -x"
        case .file: " -r -F"
        case .folder: " -x -a '(__fish_complete_directories)'"
        case .words(let words): " -x -a \(ShellText.fishQuoted(words.joined(separator: " ")))"
        }
    }
}
