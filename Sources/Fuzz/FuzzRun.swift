import Glibc

/// Mutates one parser's inputs until the time is over or a check fails.
struct FuzzRun {
    /// An input, and the property that it violates.
    struct Finding {
        let input: [UInt8]
        let reason: String
    }

    /// Longer inputs find the same defects more slowly.
    private static let longestInput = 4096
    private static let mostKept = 20_000

    private let target: FuzzTarget
    private var mutator: Mutator
    private(set) var corpus: [[UInt8]]
    private(set) var executions = 0
    /// The input that took longest, and its seconds including checks.
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
            // Reading the clock costs as much as a short input.
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

/// Changes inputs at random. Equal seeds and inputs give equal changes.
struct Mutator {
    private var state: UInt64
    private let tokens: [[UInt8]]
    /// Bytes that are significant to parsers.
    private static let bytes: [UInt8] =
        Array("\"\\{}[]:,./#$-+eE0123456789tfnu \n".utf8) + [
            0, 0x1F, 0x7F, 0x80, 0xBF, 0xC0, 0xC3, 0xED, 0xF0, 0xF4, 0xFF,
        ]

    init(seed: UInt64, tokens: [[UInt8]]) {
        state = seed
        self.tokens = tokens
    }

    mutating func pick<Choice>(_ choices: [Choice]) -> Choice { choices[below(choices.count)] }

    mutating func mutate(_ input: inout [UInt8], others: [[UInt8]]) {
        for _ in 0...below(4) { change(&input, others) }
    }

    private mutating func change(_ input: inout [UInt8], _ others: [[UInt8]]) {
        let offset = below(input.count + 1)
        switch below(10) {
        case 0 where offset < input.count: input[offset] ^= 1 << UInt8(below(8))
        case 1 where offset < input.count: input[offset] = pick(Self.bytes)
        case 2: input.insert(pick(Self.bytes), at: offset)
        case 3, 4: input.insert(contentsOf: pick(tokens), at: offset)
        case 5 where offset < input.count: input.removeSubrange(offset..<min(input.count, offset + 1 + below(8)))
        case 6 where offset < input.count:
            // Copy a piece to another offset.
            let piece = Array(input[offset..<min(input.count, offset + 1 + below(32))])
            input.insert(contentsOf: piece, at: below(input.count + 1))
        case 7:
            // Repeat a piece many times, for depth and length.
            let piece = Array(input[offset..<min(input.count, offset + 1 + below(8))])
            for _ in 0..<below(60) { input.insert(contentsOf: piece, at: offset) }
        case 8:
            let other = pick(others)
            let from = below(other.count + 1)
            input.replaceSubrange(offset..., with: other[from...])
        case 9: input.removeSubrange(offset...)
        default: input.append(UInt8(truncatingIfNeeded: next()))
        }
    }

    mutating func token() -> [UInt8] { pick(tokens) }

    mutating func below(_ limit: Int) -> Int { Int(next() % UInt64(limit)) }

    /// SplitMix64.
    private mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}

/// Measures times in seconds from an arbitrary start.
enum Stopwatch {
    /// Returns the elapsed real time.
    static func passed() -> Double { read(CLOCK_MONOTONIC) }

    /// Returns the CPU time of this thread, which does not include other work on the machine.
    static func worked() -> Double { read(CLOCK_THREAD_CPUTIME_ID) }

    private static func read(_ clock: clockid_t) -> Double {
        var time = timespec()
        clock_gettime(clock, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) * 1e-9
    }
}
