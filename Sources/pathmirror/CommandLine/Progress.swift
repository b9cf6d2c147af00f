/// Tells how far an import or export has come: a bar on a terminal, a plain line every few seconds otherwise.
final class Progress {
    private let name: String
    private let what: String
    private let totalBytes: Int?
    private let estimatedRows: Int?
    private var line: ProgressLine

    /// - Parameters:
    ///   - what: is counted, such as rows.
    ///   - estimatedRows: about how many of them there are, where bytes don't tell how far it is.
    init(
        _ console: Console, _ name: String, of what: String = "leaves", totalBytes: Int?, estimatedRows: Int? = nil,
        isQuiet: Bool, _ clock: ProgressClock = .system
    ) {
        self.name = name
        self.what = what
        self.totalBytes = totalBytes
        self.estimatedRows = estimatedRows
        line = ProgressLine(console, isQuiet: isQuiet, clock)
    }

    func update(rows: Int, bytes: Int) {
        guard line.isDue() else { return }
        let seconds = Double(line.elapsed) / 1_000
        var text = "\(name): \(Counted.text(rows, of: what)), \(Self.rate(rows, seconds)) a second"
        if let share = share(rows, bytes) {
            text += ", \(Int(share * 100)) %, \(ProgressLine.left(afterSeconds: seconds, share: share)) left"
            if line.isTerminal { text = "\(Self.bar(share)) \(text)" }
        }
        line.show(text)
    }

    private func share(_ rows: Int, _ bytes: Int) -> Double? {
        if let totalBytes, totalBytes > 0, bytes > 0 { return min(1, Double(bytes) / Double(totalBytes)) }
        // There may be more than was estimated, and then nobody knows how many.
        guard let estimatedRows, rows > 0, rows < estimatedRows else { return nil }
        return Double(rows) / Double(estimatedRows)
    }

    /// Clears the line.
    func end() { line.end() }

    func finish(rows: Int) {
        let seconds = Double(line.elapsed) / 1_000
        line.finish(
            "\(name): \(Counted.text(rows, of: what)) in \(ProgressLine.duration(seconds: seconds)), \(Self.rate(rows, seconds)) a second"
        )
    }

    private static func rate(_ rows: Int, _ seconds: Double) -> Int { Int(Double(rows) / max(seconds, 0.001)) }

    private static func bar(_ share: Double) -> String {
        let filled = Int(share * 20)
        return "[" + String(repeating: "#", count: filled) + String(repeating: ".", count: 20 - filled) + "]"
    }
}
