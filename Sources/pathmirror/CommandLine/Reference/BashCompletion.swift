/// The script by which bash completes commands, options and files.
enum BashCompletion {
    static func script(_ tree: CommandTree) -> String {
        let other = word(.free)
        var text = "# bash completion for pathmirror, made by 'pathmirror completions bash'.\n\n"
        text += function(
            "_pathmirror_words", "The words that may follow the beginning of a command's name.",
            ([""] + tree.groups).map { (ShellText.quoted($0), tree.words(after: $0).joined(separator: " ")) })
        text += function(
            "_pathmirror_options", "The options of a command.",
            tree.specifications.map { command in
                let options = (command.options.map(\.name) + ["help"]).map { "--\($0)" }
                return (ShellText.quoted(command.name), options.joined(separator: " "))
            })
        text += function(
            "_pathmirror_value", "The kind of an option's value. Fails for words that are no option with a value.",
            [("-o", word(.file))]
                + optionsByKind(tree).map { kind, names in (names.map { "--\($0)" }.joined(separator: " | "), kind) },
            otherwise: "    *) return 1 ;;\n")
        text += function(
            "_pathmirror_argument", "The kinds of a command's arguments.",
            tree.specifications.compactMap { command in
                let kind = command.positionals.map { word(ValueKind($0)) }.first { $0 != other }
                return kind.map { (ShellText.quoted(command.name), $0) }
            })
        return text + completion
    }

    /// Returns a function that prints one line for each case of its argument.
    private static func function(
        _ name: String, _ comment: String, _ cases: [(pattern: String, words: String)], otherwise: String = ""
    ) -> String {
        let lines = cases.map { "    \($0.pattern)) echo '\($0.words)' ;;\n" }.joined()
        return "# \(comment)\n\(name)() {\n    case $1 in\n\(lines)\(otherwise)    esac\n}\n\n"
    }

    private static func word(_ kind: ValueKind) -> String {
        switch kind {
        case .free: "@other"
        case .file: "@files"
        case .folder: "@folders"
        case .command: "@commands"
        case .words(let words): words.joined(separator: " ")
        }
    }

    /// Names of options with values, grouped by the kind of value.
    private static func optionsByKind(_ tree: CommandTree) -> [(kind: String, names: [String])] {
        var kinds: [(kind: String, names: [String])] = []
        for option in tree.specifications.flatMap(\.options) {
            guard let value = option.value, !kinds.contains(where: { $0.names.contains(option.name) }) else { continue }
            let kind = word(ValueKind(value))
            if let index = kinds.firstIndex(where: { $0.kind == kind }) {
                kinds[index].names.append(option.name)
            } else {
                kinds.append((kind, [option.name]))
            }
        }
        return kinds
    }

    private static let completion = #"""
        # Offers the words that begin like the word at the cursor.
        _pathmirror_offer() {
            case $1 in
            @files)
                compopt -o filenames 2>/dev/null
                mapfile -t COMPREPLY < <(compgen -f -- "$2")
                ;;
            @folders)
                compopt -o filenames 2>/dev/null
                mapfile -t COMPREPLY < <(compgen -d -- "$2")
                ;;
            @other) ;;
            *) mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2") ;;
            esac
        }

        _pathmirror() {
            local current=${COMP_WORDS[COMP_CWORD]} option='' command='' index=1 kind
            COMPREPLY=()
            # bash takes "--name=value" apart into three words.
            if [[ $current == '=' ]]; then
                option=${COMP_WORDS[COMP_CWORD - 1]} current=''
            elif [[ ${COMP_WORDS[COMP_CWORD - 1]} == '=' && $COMP_CWORD -gt 2 ]]; then
                option=${COMP_WORDS[COMP_CWORD - 2]}
            else
                option=${COMP_WORDS[COMP_CWORD - 1]}
            fi
            # The names of commands are these commands' arguments.
            if [[ $COMP_CWORD -gt 1 && ${COMP_WORDS[1]} =~ ^(help|man)$ && $current != -* && $option != -* ]]; then
                index=2
            fi
            while ((index < COMP_CWORD)) && [[ " $(_pathmirror_words "$command") " == *" ${COMP_WORDS[index]} "* ]]; do
                command+="${command:+ }${COMP_WORDS[index]}"
                ((index++))
            done
            if [[ $option == -* ]] && kind=$(_pathmirror_value "$option"); then
                _pathmirror_offer "$kind" "$current"
            elif [[ $current == -* ]]; then
                _pathmirror_offer "$(_pathmirror_options "$command")" "$current"
            elif ((index == COMP_CWORD)) && kind=$(_pathmirror_words "$command") && [[ $kind ]]; then
                _pathmirror_offer "$kind" "$current"
            else
                kind=$(_pathmirror_argument "$command")
                _pathmirror_offer "${kind:-@other}" "$current"
            fi
        }

        complete -F _pathmirror pathmirror
        """#
}

/// Shell quoting.
enum ShellText {
    /// Text in single quotes for bash and zsh.
    static func quoted(_ text: String) -> String {
        "'" + text.map { $0 == "'" ? "'\\''" : String($0) }.joined() + "'"
    }

    /// Text in single quotes for fish.
    static func fishQuoted(_ text: String) -> String {
        "'" + text.map { $0 == "'" || $0 == "\\" ? "\\\($0)" : String($0) }.joined() + "'"
    }
}
