/// The script by which zsh completes commands, options and files, with descriptions.
enum ZshCompletion {
    static func script(_ tree: CommandTree) -> String {
        var text = #"""
            #compdef pathmirror
            # zsh completion for pathmirror, made by 'pathmirror completions zsh'.

            # The words that may follow the beginning of a command's name, with descriptions, in the array "reply".
            _pathmirror_words() {
                reply=()
                case $1 in

            """#
        for beginning in [""] + tree.groups {
            text += "    \(ShellText.quoted(beginning)))\n        reply=(\n"
            for word in tree.words(after: beginning) {
                let name = beginning.isEmpty ? word : "\(beginning) \(word)"
                let summary = tree.summary(of: name).replacing(":", with: "\\:")
                text += "            \(ShellText.quoted("\(word):\(summary)"))\n"
            }
            text += "        ) ;;\n"
        }
        text += functions
        for command in tree.specifications {
            text += "    \(ShellText.quoted(command.name)))\n        _arguments -S \\\n"
            for specification in arguments(command) { text += "            \(ShellText.quoted(specification)) \\\n" }
            text += "            '--help[explains the command]'\n        ;;\n"
        }
        return text + #"""
                esac
            }

            _pathmirror "$@"
            """#
    }

    private static let functions = #"""
            esac
        }

        _pathmirror_names() {
            local -a reply
            _pathmirror_words "$1"
            _describe -t commands 'pathmirror command' reply
        }

        _pathmirror() {
            local name='' index=2 next
            local -a reply
            # The names of commands are these commands' arguments.
            if [[ $words[2] == (help|man) && $words[CURRENT] != -* ]] && (( CURRENT > 2 )); then
                index=3
            fi
            while (( index < CURRENT )); do
                _pathmirror_words "$name"
                (( ${reply[(I)$words[index]:*]} )) || break
                name+="${name:+ }$words[index]"
                (( index++ ))
            done
            _pathmirror_words "$name"
            if (( index == CURRENT && $#reply )); then
                _pathmirror_names "$name"
                return
            fi
            # The rest belongs to the command: its name counts as one word.
            words=("$name" "${(@)words[index,-1]}")
            (( CURRENT -= index - 2 ))
            case $name in

        """#

    private static func arguments(_ command: CommandSpecification) -> [String] {
        var specifications = command.options.map { option in
            let help = escaped(option.help, alsoIn: "[]")
            guard let value = option.value else { return "--\(option.name)[\(help)]" }
            // A list option may be given several times.
            let mark = option.isList ? "*" : ""
            return "\(mark)--\(option.name)=[\(help)]:\(escaped(value)):\(action(ValueKind(value)))"
        }
        for (index, name) in command.positionals.enumerated() {
            let isLast = index == command.positionals.count - 1
            let position = isLast && command.takesMany ? "*" : "\(index + 1)"
            let colons = name.hasPrefix("[") && position != "*" ? "::" : ":"
            specifications.append("\(position)\(colons)\(escaped(name)):\(action(ValueKind(name)))")
        }
        return specifications
    }

    private static func action(_ kind: ValueKind) -> String {
        switch kind {
        case .free: " "
        case .file: "_files"
        case .folder: "_files -/"
        case .command: "_pathmirror_names \"\""
        case .words(let words): "(\(words.joined(separator: " ")))"
        }
    }

    /// Escapes characters with a meaning in the specifications of `_arguments`.
    private static func escaped(_ text: String, alsoIn more: String = "") -> String {
        text.map { $0 == ":" || $0 == "\\" || more.contains($0) ? "\\\($0)" : String($0) }.joined()
    }
}
