import Mirrors
import Runtime

/// Shows how a build goes: one line that moves on a terminal, a line now and then otherwise.
final class BuildProgress {
    private let console: Console
    private let name: String
    private let isQuiet: Bool
    private let start = Clock.monotonicMilliseconds
    private var last: Int64 = 0

    init(_ console: Console, _ name: String, isQuiet: Bool) {
        self.console = console
        self.name = name
        self.isQuiet = isQuiet
    }

    func update(_ progress: MirrorBuilder.Progress) {
        let now = Clock.monotonicMilliseconds
        guard !isQuiet, now - max(last, start) >= (console.isTerminal ? 100 : 5_000) else { return }
        last = now
        let text =
            switch progress {
            case .removedLeftover: "what an interrupted build had left was removed"
            case .copying(let rows): "\(rows) rows, \(Int64(rows) * 1_000 / max(1, now - start)) a second"
            case .indexing: "making indexes"
            case .catchingUp(let seq, let head): "catching up: seq \(seq) of \(head)"
            case .verifying(let rows): "comparing: \(rows) rows"
            case .swapping: "swapping"
            }
        if console.isTerminal { console.progressLine("\(name): \(text)") } else { console.error("\(name): \(text)") }
    }

    func end() {
        if !isQuiet, console.isTerminal { console.progressLine("") }
    }
}
