import Glibc

/// Feeds the parsers mutated input and checks what must hold for any input. Needs nothing but itself: the corpus is built
/// in, and what an input does (accepted, refused and why) decides whether it is worth mutating further.
@main
enum Fuzz {
    static func main() {
        let options: FuzzOptions
        do throws(FuzzOptions.Mistake) {
            options = try FuzzOptions(Array(CommandLine.arguments.dropFirst()), targets: FuzzTarget.all.map(\.name))
        } catch {
            Output.error("\(error.reason)\n\n\(FuzzOptions.usage(FuzzTarget.all.map(\.name)))")
            exit(2)
        }
        if options.wantsHelp {
            Output.line(FuzzOptions.usage(FuzzTarget.all.map(\.name)))
            exit(0)
        }
        if let file = options.replay { exit(replay(file)) }
        exit(run(options))
    }

    /// Seconds from which on an input is shown, for somebody to look at: with its checks, and on a busy machine.
    private static let slow = 0.1

    private static func run(_ options: FuzzOptions) -> Int32 {
        let targets = FuzzTarget.all.filter { options.targets.contains($0.name) }
        let evidence: CrashFile?
        do throws(CrashFile.Failure) {
            evidence = try options.crashFile.map { (path) throws(CrashFile.Failure) in try CrashFile(path) }
        } catch {
            Output.error(error.reason)
            return 1
        }
        Output.line("seed \(options.seed)")
        for target in targets {
            var run = FuzzRun(target, seed: options.seed)
            let finding = run.run(seconds: options.seconds / Double(targets.count), evidence: evidence)
            let (input, slowest) = run.slowest
            Output.line(
                "\(target.name): \(run.executions) executions, \(run.corpus.count) inputs kept, the slowest \(input.count) bytes in \(Int(slowest * 1e6)) µs"
            )
            if slowest > slow { Output.line("    \(Output.hex(input))") }
            guard let finding else {
                if options.wantsGrowth { lookForGrowth(target, run.corpus, options, evidence) }
                continue
            }
            Output.error(
                "\(target.name): \(finding.reason)\ninput (hex): \(Output.hex(finding.input))\nseed \(options.seed)")
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
        Output.line("\(target.name): \(tried) inputs made long, \(lines.count) of them suspect")
        for line in lines { Output.line("    \(line)") }
    }

    /// Runs the input that a crash file kept once more.
    private static func replay(_ path: String) -> Int32 {
        guard let (name, input) = CrashFile.read(path), let target = FuzzTarget.all.first(where: { $0.name == name })
        else {
            Output.error("\(path) holds no input of this program")
            return 2
        }
        Output.line("\(name), input (hex): \(Output.hex(input))")
        var summary = Summary()
        if let reason = target.check(input, &summary) {
            Output.error("\(name): \(reason)")
            return 1
        }
        Output.line("nothing found")
        return 0
    }
}
