import Testing

extension EndToEnd {
    /// Compares random work of two clients with a plain model. `PATHMIRROR_MODEL_ROUNDS` sets the number of rounds for
    /// a campaign, and `PATHMIRROR_MODEL_SEED` its first seed.
    @Suite(.serialized) struct Model {
        @Test func listenersReceiveTheServersState() async throws {
            try await run(hasFaults: false)
        }

        @Test func itIsSoOverABadNetwork() async throws {
            try await run(hasFaults: true)
        }

        private func run(hasFaults: Bool) async throws {
            let gateway = try #require(TestGateway.current)
            let first = ModelSettings.seed ?? 1
            for seed in first..<(first + (ModelSettings.rounds ?? 6)) {
                let round = ModelRound(.init(seed: seed, hasFaults: hasFaults), port: gateway.port)
                let problems = try await round.run()
                guard problems.isEmpty else {
                    Issue.record("PATHMIRROR_MODEL_SEED=\(seed): \(problems.joined(separator: "\n"))")
                    return
                }
            }
        }
    }
}
