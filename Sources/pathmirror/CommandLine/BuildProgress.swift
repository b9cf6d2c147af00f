import Mirrors

/// Shows how a build goes: one line that moves on a terminal, a line now and then otherwise.
final class BuildProgress {
    private let name: String
    private var line: ProgressLine

    init(_ console: Console, _ name: String, isQuiet: Bool, _ clock: ProgressClock = .system) {
        self.name = name
        line = ProgressLine(console, isQuiet: isQuiet, clock)
    }

    func update(_ progress: MirrorBuilder.Progress) {
        guard line.isDue() else { return }
        let text =
            switch progress {
            case .removedLeftover: "what an interrupted build had left was removed"
            case .copying(let rows):
                "\(Counted.text(rows, "row")), \(Int64(rows) * 1_000 / max(1, line.elapsed)) a second"
            case .indexing: "making indexes"
            case .catchingUp(let seq, let head): "catching up: seq \(seq) of \(head)"
            case .verifying(let rows): "comparing: \(Counted.text(rows, "row"))"
            case .swapping: "swapping"
            }
        line.show("\(name): \(text)")
    }

    func end() { line.end() }
}
