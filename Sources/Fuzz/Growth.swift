/// Searches for inputs whose time grows faster than their length. Repeats pieces of an input until it is long, then
/// four times as long. The results need manual review: times depend on the machine, so they are not failures.
struct Growth {
    /// An input built from two pieces: `before` + `piece` × n + `between` + `counterpart` × n + `after`.
    struct Suspect {
        let before: [UInt8]
        let piece: [UInt8]
        let between: [UInt8]
        let counterpart: [UInt8]
        let after: [UInt8]

        func input(of size: Int) -> [UInt8] {
            let count = max(1, (size - before.count - between.count - after.count) / (piece.count + counterpart.count))
            return before + Self.repeated(piece, count) + between + Self.repeated(counterpart, count) + after
        }

        private static func repeated(_ piece: [UInt8], _ count: Int) -> [UInt8] {
            Array(repeatElement(piece, count: count).joined())
        }
    }

    /// Sizes in bytes. Each is about four times the previous one.
    private static let sizes = [16 << 10, 64 << 10, 256 << 10, 1000 << 10]
    /// The factor in time up to which four times the size is not suspect. Caches and tables also cost time.
    private static let mostFactor = 8.0
    /// The time in seconds below which a measurement is ignored.
    private static let least = 0.004
    /// The time in nanoseconds per byte from which an input counts as slow regardless of growth.
    private static let slow = 2_000.0

    private let name: String
    private let work: @Sendable ([UInt8]) -> Void
    private let evidence: CrashFile?
    private var mutator: Mutator
    private let corpus: [[UInt8]]
    private var reported: Set<[UInt8]> = []

    /// Returns nil for a target without work to measure.
    init?(_ target: FuzzTarget, corpus: [[UInt8]], seed: UInt64, evidence: CrashFile?) {
        guard let work = target.work else { return nil }
        name = target.name
        self.work = work
        self.evidence = evidence
        self.corpus = corpus
        mutator = Mutator(seed: seed, tokens: target.tokens)
    }

    /// Tries pieces for `seconds`. Returns the number of tries, and a line for each suspect, at most ten.
    mutating func run(seconds: Double) -> (tried: Int, lines: [String]) {
        let end = Stopwatch.passed() + seconds
        var lines: [String] = []
        var tried = 0
        while Stopwatch.passed() < end, lines.count < 10 {
            tried += 1
            let suspect = suspect()
            guard let line = measure(suspect), reported.insert(suspect.piece).inserted else { continue }
            lines.append(line)
        }
        return (tried, lines)
    }

    private mutating func suspect() -> Suspect {
        var input = mutator.pick(corpus)
        if mutator.below(3) == 0 { mutator.mutate(&input, others: corpus) }
        let first = mutator.below(input.count + 1)
        let second = first + mutator.below(min(64, input.count - first) + 1)
        let third = second + mutator.below(input.count - second + 1)
        let fourth = third + mutator.below(min(64, input.count - third) + 1)
        var piece = Array(input[first..<second])
        if piece.isEmpty { piece = mutator.token() }
        let counterpart = mutator.below(2) == 0 ? [] : Array(input[third..<fourth])
        return Suspect(
            before: Array(input[..<first]), piece: piece, between: Array(input[second..<third]),
            counterpart: counterpart, after: Array(input[fourth...]))
    }

    private func isGrowing(_ times: [Double], _ index: Int) -> Bool {
        times[index] > Self.least && times[index - 1] > Self.least / 8
            && times[index] > times[index - 1] * Self.mostFactor
    }

    private func isSlow(_ times: [Double], _ index: Int) -> Bool {
        times[index] * 1e9 / Double(Self.sizes[index]) > Self.slow
    }

    private func measure(_ suspect: Suspect) -> String? {
        var times: [Double] = []
        for (index, size) in Self.sizes.enumerated() {
            let input = suspect.input(of: size)
            evidence?.keep(name, input)
            let start = Stopwatch.worked()
            work(input)
            times.append(Stopwatch.worked() - start)
            // The largest size is measured only if the previous one was suspect, to see whether the growth continues.
            if index == 2, !isSlow(times, index), !isGrowing(times, index) { return nil }
        }
        guard isSlow(times, 3) || isGrowing(times, 3) else { return nil }
        let shown = zip(Self.sizes, times).map { "\($0 >> 10) KiB \(Int($1 * 1e6)) µs" }.joined(separator: ", ")
        return
            "\(shown): \(FuzzOutput.hex(suspect.before)) + \(FuzzOutput.hex(suspect.piece)) × n + \(FuzzOutput.hex(suspect.between))"
            + " + \(FuzzOutput.hex(suspect.counterpart)) × n + \(FuzzOutput.hex(suspect.after))"
    }
}
