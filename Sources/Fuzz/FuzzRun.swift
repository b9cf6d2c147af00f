/// Mutates one parser's inputs until the time is up or something is found.
struct FuzzRun {
    /// An input, and what should not be about it.
    struct Finding {
        let input: [UInt8]
        let reason: String
    }

    /// Longer inputs do the same slower.
    private static let longestInput = 4096
    private static let mostKept = 20_000

    private let target: FuzzTarget
    private var mutator: Mutator
    private(set) var corpus: [[UInt8]]
    private(set) var executions = 0
    /// The input that took longest, and its seconds, checks included.
    private(set) var slowest: (input: [UInt8], seconds: Double) = ([], 0)
    private var summaries: Set<UInt64> = []

    init(_ target: FuzzTarget, seed: UInt64) {
        self.target = target
        mutator = Mutator(seed: seed, tokens: target.tokens)
        corpus = target.corpus
    }

    mutating func run(seconds: Double, evidence: CrashFile?) -> Finding? {
        let end = Stopwatch.passed() + seconds
        for input in corpus {
            if let finding = execute(input, evidence) { return finding }
        }
        while true {
            // A look at the clock costs as much as a short input.
            for _ in 0..<256 {
                var input = mutator.pick(corpus)
                mutator.mutate(&input, others: corpus)
                if input.count > Self.longestInput { input.removeSubrange(Self.longestInput...) }
                if let finding = execute(input, evidence) { return finding }
            }
            if Stopwatch.passed() >= end { return nil }
        }
    }

    private mutating func execute(_ input: [UInt8], _ evidence: CrashFile?) -> Finding? {
        evidence?.keep(target.name, input)
        executions += 1
        var summary = Summary()
        let start = Stopwatch.passed()
        let reason = target.check(input, &summary)
        let seconds = Stopwatch.passed() - start
        if seconds > slowest.seconds { slowest = (input, seconds) }
        if let reason { return Finding(input: input, reason: reason) }
        if summaries.insert(summary.value).inserted, corpus.count < Self.mostKept { corpus.append(input) }
        return nil
    }
}
