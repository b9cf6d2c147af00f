import Foundation
import TestSupport
import Testing

extension EndToEnd {
    /// The campaign of `scripts/client-soak`: runs rounds of the model test for `PATHMIRROR_SOAK_MINUTES`, most of them
    /// over a network that fails. A failed round is reported, and the next one begins.
    @Suite(.enabled(if: ModelSettings.minutes != nil, "only asked for by scripts/client-soak"))
    struct Soak {
        @Test func listenersReceiveTheServersState() async throws {
            let gateway = try #require(TestGateway.current)
            let minutes = try #require(ModelSettings.minutes)
            let end = ContinuousClock.now + .seconds(minutes * 60)
            var sum = ModelFigures()
            var seed = ModelSettings.seed ?? UInt64.random(in: 1...1_000_000_000)
            say("begins with seed \(seed)")
            while ContinuousClock.now < end {
                let round = ModelRound(
                    .init(seed: seed, steps: 240, settles: 4, hasFaults: seed % 8 != 0), port: gateway.port)
                let problems = try await round.run()
                sum.add(await round.figures, isWrong: !problems.isEmpty)
                if !problems.isEmpty {
                    Issue.record("PATHMIRROR_MODEL_SEED=\(seed): \(problems.joined(separator: "\n"))")
                }
                if sum.rounds % 20 == 0 { say("\(sum), \(ProcessFigures.now)") }
                seed += 1
            }
            say("\(sum), \(ProcessFigures.now)")
        }

        private func say(_ text: String) { FileHandle.standardOutput.write(Data((text + "\n").utf8)) }
    }
}

/// The settings of the model test in the environment.
enum ModelSettings {
    static let minutes = number("PATHMIRROR_SOAK_MINUTES")
    static let rounds = number("PATHMIRROR_MODEL_ROUNDS")
    static let seed = number("PATHMIRROR_MODEL_SEED")

    private static func number(_ name: String) -> UInt64? {
        ProcessInfo.processInfo.environment[name].flatMap { UInt64($0) }
    }
}

/// The totals of a campaign.
struct ModelFigures: Sendable, CustomStringConvertible {
    var rounds = 0
    var wrong = 0
    var steps = 0
    var writes = 0
    var entries = 0
    var events = 0
    var listeners = 0
    var faults = 0
    var losses = 0
    var restarts = 0

    mutating func add(_ other: ModelFigures, isWrong: Bool) {
        rounds += 1
        wrong += isWrong ? 1 : 0
        steps += other.steps
        writes += other.writes
        entries += other.entries
        events += other.events
        listeners += other.listeners
        faults += other.faults
        losses += other.losses
        restarts += other.restarts
    }

    var description: String {
        "\(rounds) rounds, \(wrong) of them wrong: \(steps) steps, \(writes) writes and transactions, \(entries) entries, "
            + "\(listeners) listeners, \(events) events, \(faults) faults, \(losses) connections lost, \(restarts) restarts"
    }
}

/// The resources that the process holds.
struct ProcessFigures: CustomStringConvertible {
    let files: Int
    let threads: Int
    let megabytes: Int

    static var now: ProcessFigures {
        let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
        func field(_ name: String) -> Int {
            let line = status.split(separator: "\n").first { $0.hasPrefix(name + ":") }
            return line.flatMap { Int($0.drop { !$0.isNumber }.prefix { $0.isNumber }) } ?? 0
        }
        return ProcessFigures(
            files: TemporaryFolder.names(in: "/proc/self/fd").count, threads: field("Threads"),
            megabytes: field("VmRSS") / 1_024)
    }

    var description: String { "\(files) files, \(threads) threads, \(megabytes) MB" }
}
