import LogStore
import Runtime
import TestSupport
import Testing

@testable import Engine

/// Checks that engines of several databases share one budget: a load by one may cause an eviction by another.
@Suite struct TreeBudgetTests {
    @Test func anotherEnginesUnusedNamespacesGo() throws {
        try withDatabase { firstURL in
            try withDatabase { secondURL in
                let budget = TreeBudget(bytes: 64 * NamespaceMemory.bytesBesidesTree)
                let engines = try [firstURL, secondURL].map { url in
                    var settings = EngineSettings()
                    settings.createsNamespaces = true
                    settings.recentUseMilliseconds = 0
                    return try Engine(
                        url: url, settings: settings, metrics: EngineMetrics(),
                        logger: Logger(level: .error, descriptor: -1), budget: budget)
                }
                defer { for engine in engines { engine.stop(milliseconds: 5_000) } }
                // The first engine has the whole budget, and all of its namespaces are idle.
                for number in 0..<60 { try Self.load("n\(number)", engines[0]) }
                #expect(engines[0].memory.namespaces == 60)
                for number in 0..<60 { try Self.load("n\(number)", engines[1]) }
                #expect(eventually { engines[0].memory.bytes <= engines[0].memory.budget })
                #expect(engines[0].memory.namespaces < 60 || engines[1].memory.namespaces < 60)
                #expect(engines[0].memory.bytes == engines[1].memory.bytes, "it is one sum")
                // Namespaces in use by the second engine stay: the first has to evict.
                let used = try (0..<60).map { try Self.load("n\($0)", engines[1]) }
                #expect(eventually { engines[1].memory.bytes <= engines[1].memory.budget })
                #expect(engines[1].memory.namespaces == 60)
                #expect(engines[0].memory.namespaces <= 4)
                withExtendedLifetime(used) {}
            }
        }
    }

    @discardableResult
    static func load(_ name: String, _ engine: Engine) throws -> LiveNamespace {
        let result = Condition<Result<LiveNamespace, EngineError>?>(nil)
        engine.withNamespace(name) { loaded in result.broadcast { $0 = loaded } }
        return try #require(result.wait(milliseconds: 30_000) { $0 }).get()
    }
}
