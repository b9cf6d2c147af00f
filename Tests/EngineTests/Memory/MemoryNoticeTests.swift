import Runtime
import TestSupport
import Testing

@testable import Engine

/// Checks that operators are notified once each time that trees exceed their budget.
@Suite struct MemoryNoticeTests {
    private static let budget = 800

    /// Returns the times at which a notice is due for trees of these sizes, half a second apart.
    private static func notices(_ bytes: [Int]) -> [Int] {
        var notice = MemoryNotice()
        return bytes.enumerated().filter { index, bytes in
            notice.isDue(bytes: bytes, budget: budget, now: Milliseconds(index) * 500)
        }.map(\.offset)
    }

    @Test func onceForEachCrossing() {
        #expect(Self.notices(Array(repeating: 801, count: 40)) == [4])
        #expect(Self.notices(Array(repeating: 800, count: 40)) == [])
        #expect(Self.notices([801, 801, 801, 801, 801, 700, 801, 801, 801, 801, 801, 801]) == [4, 10])
        #expect(Self.notices([801, 801, 801, 800, 801, 801, 801, 801]) == [], "not without a break")
    }

    /// Pages are kept just below the budget, so sizes fluctuate around it.
    @Test func whatComesBackALittleIsNoNews() {
        let around = (0..<200).map { $0 % 12 < 6 ? 900 : 701 }
        #expect(Self.notices(around) == [4])
    }

    /// The frequency of checks has no influence.
    @Test func looksInBetweenChangeNothing() {
        var notice = MemoryNotice()
        var due = 0
        for time in 0..<12_000 as Range<Milliseconds> where notice.isDue(bytes: 900, budget: Self.budget, now: time) {
            due += 1
        }
        #expect(due == 1 && notice.isGiven)
    }

    @Test func withoutABudget() {
        var notice = MemoryNotice()
        for time in 0..<10 as Range<Milliseconds> {
            let isDue = notice.isDue(bytes: .max, budget: .max, now: time * 1_000)
            #expect(!isDue)
        }
    }

    /// Engines of several databases share the budget, and one of them logs the notice.
    @Test func theLogSaysItOnce() throws {
        try withDatabase { firstURL in
            try withDatabase { secondURL in
                let lines = LoggedLines()
                let budget = TreeBudget(bytes: 20 * NamespaceMemory.bytesBesidesTree)
                let engines = try [firstURL, secondURL].map { url in
                    var settings = EngineSettings()
                    settings.createsNamespaces = true
                    return try Engine(
                        url: url, settings: settings, metrics: EngineMetrics(), logger: lines.logger, budget: budget)
                }
                defer { for engine in engines { engine.stop(milliseconds: 5_000) } }
                var held: [LiveNamespace] = []
                for engine in engines {
                    for number in 0..<20 { held.append(try TreeBudgetTests.load("n\(number)", engine)) }
                }
                #expect(
                    eventually { lines.lines(with: "the trees in use take more memory than --tree-memory").count > 0 })
                for _ in 0..<200 { for namespace in held { namespace.recount() } }
                #expect(eventually { budget.isNoticeGiven })
                #expect(lines.lines(with: "the trees in use take more memory than --tree-memory").count == 1)
                withExtendedLifetime(held) {}
            }
        }
    }
}
