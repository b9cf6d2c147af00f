import Glibc

/// Feeds mutated input to the parsers and checks properties that must hold for any input. Needs no other files: the
/// corpus is built in, and the effect of an input (accepted, or rejected for a reason) decides whether the input is
/// mutated further.
@main
enum Fuzz {
    static func main() {
        let options: FuzzOptions
        do throws(FuzzOptions.Mistake) {
            options = try FuzzOptions(Array(CommandLine.arguments.dropFirst()), targets: FuzzTarget.all.map(\.name))
        } catch {
            FuzzOutput.error("\(error.reason)\n\n\(FuzzOptions.usage(FuzzTarget.all.map(\.name)))")
            exit(2)
        }
        if options.wantsHelp {
            FuzzOutput.line(FuzzOptions.usage(FuzzTarget.all.map(\.name)))
            exit(0)
        }
        if let file = options.replay { exit(replay(file)) }
        exit(run(options))
    }

    /// The time in seconds from which an input is printed for manual review. It includes the checks, on a busy machine.
    private static let slow = 0.1

    private static func run(_ options: FuzzOptions) -> Int32 {
        let targets = FuzzTarget.all.filter { options.targets.contains($0.name) }
        let evidence: CrashFile?
        do throws(CrashFile.Failure) {
            evidence = try options.crashFile.map { (path) throws(CrashFile.Failure) in try CrashFile(path) }
        } catch {
            FuzzOutput.error(error.reason)
            return 1
        }
        FuzzOutput.line("seed \(options.seed)")
        for target in targets {
            var run = FuzzRun(target, seed: options.seed)
            let finding = run.run(seconds: options.seconds / Double(targets.count), evidence: evidence)
            let (input, slowest) = run.slowest
            FuzzOutput.line(
                "\(target.name): \(run.executions) executions, \(run.corpus.count) inputs kept, the slowest \(input.count) bytes in \(Int(slowest * 1e6)) µs"
            )
            if slowest > slow { FuzzOutput.line("    \(FuzzOutput.hex(input))") }
            guard let finding else {
                if options.wantsGrowth { lookForGrowth(target, run.corpus, options, evidence) }
                continue
            }
            FuzzOutput.error(
                "\(target.name): \(finding.reason)\ninput (hex): \(FuzzOutput.hex(finding.input))\nseed \(options.seed)"
            )
            return 1
        }
        evidence?.remove()
        return 0
    }

    private static func lookForGrowth(
        _ target: FuzzTarget, _ corpus: [[UInt8]], _ options: FuzzOptions, _ evidence: CrashFile?
    ) {
        guard var growth = Growth(target, corpus: corpus, seed: options.seed, evidence: evidence) else { return }
        let (tried, lines) = growth.run(seconds: options.seconds / Double(options.targets.count))
        FuzzOutput.line("\(target.name): \(tried) inputs made long, \(lines.count) of them suspect")
        for line in lines { FuzzOutput.line("    \(line)") }
    }

    /// Runs the input of a crash file again.
    private static func replay(_ path: String) -> Int32 {
        guard let (name, input) = CrashFile.read(path), let target = FuzzTarget.all.first(where: { $0.name == name })
        else {
            FuzzOutput.error("\(path) contains no input of this program")
            return 2
        }
        FuzzOutput.line("\(name), input (hex): \(FuzzOutput.hex(input))")
        var summary = Summary()
        if let reason = target.check(input, &summary) {
            FuzzOutput.error("\(name): \(reason)")
            return 1
        }
        FuzzOutput.line("nothing found")
        return 0
    }
}

struct FuzzOptions {
    /// An error in the command line.
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

        Parsers: \(names.joined(separator: ", ")); without a PARSER, all parsers run.
          --seconds N        total run time in seconds (10)
          --seed S           repeats a run: the same seed makes the same inputs in the same order
          --growth           also prints inputs whose time grows faster than their size, for manual inspection
          --crash-file FILE  stores the current input in FILE, so that it is available after a crash
          --replay FILE      runs the input of a crash file

        Exit status: 0 nothing found, 1 a finding (its input is printed in hex), 2 wrong usage.
        """
    }
}

/// Writes lines to the terminal.
enum FuzzOutput {
    static func line(_ text: String) { put(text, 1) }
    static func error(_ text: String) { put(text, 2) }

    static func hex(_ bytes: [UInt8]) -> String {
        let digits: [Character] = Array("0123456789abcdef")
        return String(bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] })
    }

    private static func put(_ text: String, _ descriptor: Int32) {
        var rest = Array((text + "\n").utf8)[...]
        while !rest.isEmpty {
            let written = rest.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
            if written < 0, errno == EINTR { continue }
            guard written > 0 else { return }
            rest = rest.dropFirst(written)
        }
    }
}
