import Engine
import LogStore
import Runtime
import TestSupport
import Testing
import Tree

@testable import Feeds

/// Checks that feeds of a namespace that is still being loaded wait without blocking a thread.
@Suite struct ComingTreesTests {
    /// A source of trees whose namespace is loaded when the test says so.
    private final class ComingTrees: TreeSource {
        private struct State: Sendable {
            var hasCome = false
            var watching: [Int64: @Sendable () -> Void] = [:]
            var asked = 0
        }
        private let state = MutexBox(State())
        private let budget = TreeBudget(bytes: 1 << 30)

        var isWatched: Bool { state.withLock { !$0.watching.isEmpty } }
        /// The number of attempts to start.
        var asked: Int { state.withLock { $0.asked } }

        func come() {
            let bodies = state.withLock { state in
                state.hasCome = true
                return Array(state.watching.values)
            }
            for body in bodies { body() }
        }

        func watch(_ name: String, _ namespace: Int64, _ body: @escaping @Sendable () -> Void) {
            state.withLock { $0.watching[namespace] = body }
        }
        func isComing(_ namespace: Int64) -> Bool {
            state.withLock { state in
                state.asked += 1
                return !state.hasCome
            }
        }
        func forget(_ namespace: Int64) { state.withLock { $0.watching[namespace] = nil } }
        func tree(of namespace: Int64, at seq: Int64) -> TreeVersion? { nil }
        func steps(of namespace: Int64, after cursor: LogPosition, most: Int) -> [TreeStep]? { nil }
        func room(while continues: @escaping @Sendable () -> Bool) -> any TreeMemoryBudget {
            budget.room(while: continues)
        }
    }

    private static let feed = #"{"path": "/a/{k}", "start": "beginning"}"#

    @Test func theyBeginWhenItHasCome() throws {
        try FeedBench.with { bench in
            let trees = ComingTrees()
            let service = try bench.service(trees: trees)
            defer { service.stop() }
            for number in 1...5 as ClosedRange<Int64> { try bench.set("/a/k\(number)", .int(number)) }
            try bench.apply("f", Self.feed)
            try bench.apply("g", Self.feed)
            #expect(eventually { trees.asked >= 2 })
            let consumer = bench.consumer("f")
            #expect(consumer.receive(service).isEmpty)
            trees.come()
            #expect(consumer.consume([service]) { consumer.ids.count == 5 })
            let other = bench.consumer("g")
            #expect(other.consume([service]) { other.ids.count == 5 })
        }
    }

    /// Checks that feeds that are removed meanwhile are not started.
    @Test func theyMayGoMeanwhile() throws {
        try FeedBench.with { bench in
            let trees = ComingTrees()
            let service = try bench.service(trees: trees)
            defer { service.stop() }
            try bench.apply("f", Self.feed)
            #expect(eventually { trees.asked > 0 && trees.isWatched })
            _ = try bench.administration.remove(bench.name("f"))
            #expect(eventually { !trees.isWatched })
            trees.come()
            // A second feed, so that the test can wait for something.
            try bench.apply("g", Self.feed)
            try bench.set("/a/k1", .int(1))
            let consumer = bench.consumer("g")
            #expect(consumer.consume([service]) { consumer.ids.count == 1 })
            _ = try bench.administration.remove(bench.name("g"))
            #expect(eventually { !trees.isWatched })
        }
    }
}
