/// The command line.
struct FuzzOptions {
    /// What is wrong with it.
    struct Mistake: Error {
        let reason: String
    }

    var targets: [String] = []
    var seconds = 10.0
    var seed = UInt64.random(in: 0...UInt64(UInt32.max))
    var crashFile: String?
    var replay: String?
    var wantsGrowth = false
    var wantsHelp = false

    init(_ arguments: [String], targets known: [String]) throws(Mistake) {
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            switch argument {
            case "--help", "-h": wantsHelp = true
            case "--seconds":
                guard let value = Double(try Self.value(of: argument, &rest)), value > 0, value.isFinite else {
                    throw Mistake(reason: "--seconds takes a number above 0")
                }
                seconds = value
            case "--seed":
                guard let value = UInt64(try Self.value(of: argument, &rest)) else {
                    throw Mistake(reason: "--seed takes a whole number")
                }
                seed = value
            case "--growth": wantsGrowth = true
            case "--crash-file": crashFile = try Self.value(of: argument, &rest)
            case "--replay": replay = try Self.value(of: argument, &rest)
            default:
                let name = argument == "--only" ? try Self.value(of: argument, &rest) : argument
                guard known.contains(name) else { throw Mistake(reason: "there is no parser \"\(name)\"") }
                targets.append(name)
            }
        }
        if targets.isEmpty { targets = known }
    }

    private static func value(of option: String, _ rest: inout ArraySlice<String>) throws(Mistake) -> String {
        guard let value = rest.popFirst() else { throw Mistake(reason: "\(option) takes a value") }
        return value
    }

    static func usage(_ names: [String]) -> String {
        """
        Usage: pathmirror-fuzz [PARSER…] [--only PARSER] [--seconds N] [--seed S] [--growth] [--crash-file FILE]
               pathmirror-fuzz --replay FILE

        Parsers: \(names.joined(separator: ", ")); all of them without one.
          --seconds N        how long to run in all (10)
          --seed S           repeats a run: the same seed makes the same inputs in the same order
          --growth           also looks for inputs whose time grows faster than they do, and prints them: for somebody to look at
          --crash-file FILE  keeps the current input there, so that a crash leaves it behind
          --replay FILE      runs the input of a crash file

        Exit status: 0 nothing found, 1 a finding (its input is printed in hex), 2 wrong usage.
        """
    }
}
