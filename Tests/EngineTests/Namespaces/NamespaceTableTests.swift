import Runtime
import TestSupport
import Testing

@testable import Engine

/// Checks which namespaces are in use, being loaded, or known to be missing.
@Suite struct NamespaceTableTests {
    private final class Answers: Sendable {
        private let state = MutexBox<[String]>([])

        var all: [String] { state.withLock { $0 } }

        @Sendable func take(_ result: Result<LiveNamespace, EngineError>) {
            let text =
                switch result {
                case .success(let namespace): namespace.name
                case .failure(let error): "\(error)"
                }
            state.withLock { $0.append(text) }
        }
    }

    @Test func theFirstToAskHasItLoaded() {
        let table = NamespaceTable()
        let answers = Answers()
        #expect(table.request("a", answers.take))
        #expect(!table.request("a", answers.take), "it is being loaded")
        #expect(table.request("b", answers.take))
        #expect(answers.all.isEmpty && table.live("a") == nil && table.all.isEmpty)
        table.loaded("a", .success(.test(id: 1, name: "a")))
        #expect(answers.all == ["a", "a"])
        #expect(!table.request("a", answers.take))
        #expect(answers.all == ["a", "a", "a"])
        #expect(table.live("a") === table.live(id: 1) && table.live("a") != nil)
        #expect(table.all.count == 1)
    }

    /// A temporary failure is retried by the next request.
    @Test func aFailureIsTriedAgain() {
        let table = NamespaceTable()
        let answers = Answers()
        #expect(table.request("a", answers.take))
        table.loaded("a", .failure(.unavailable("away")))
        #expect(answers.all == ["The database is unavailable: away"])
        #expect(table.request("a", answers.take))
    }

    /// Requests for invented names cost the database one query a second.
    @Test func aMissingOneIsRememberedForASecond() {
        let time = MutexBox<Int64>(0)
        let table = NamespaceTable(now: { time.withLock { $0 } })
        let answers = Answers()
        #expect(table.request("a", answers.take))
        table.loaded("a", .failure(.unknownNamespace("a")))
        time.withLock { $0 = 999 }
        #expect(!table.request("a", answers.take))
        #expect(answers.all.count == 2 && Set(answers.all).count == 1)
        time.withLock { $0 = 1_000 }
        #expect(table.request("a", answers.take))
        table.loaded("a", .success(.test(name: "a")))
        #expect(answers.all.last == "a")
    }

    /// A limited number of invented names is remembered; then all of them are forgotten, and other namespaces are not.
    @Test func missingOnesAreForgottenWhereThereAreTooMany() {
        let table = NamespaceTable(now: { 0 })
        let answers = Answers()
        _ = table.request("here", answers.take)
        table.loaded("here", .success(.test(name: "here")))
        _ = table.request("loading", answers.take)
        for number in 0...10_000 {
            #expect(table.request("n\(number)", answers.take))
            table.loaded("n\(number)", .failure(.unknownNamespace("")))
        }
        #expect(table.request("n0", answers.take), "it was forgotten")
        #expect(!table.request("n10000", answers.take))
        #expect(table.live("here") != nil)
        #expect(!table.request("loading", answers.take))
    }

    @Test func aForgottenNamespaceIsLookedUpAgain() {
        let table = NamespaceTable()
        let (old, new) = (LiveNamespace.test(id: 1, name: "a"), LiveNamespace.test(id: 2, name: "a"))
        table.loaded("a", .success(old))
        table.forget(old)
        #expect(table.live("a") == nil && table.live(id: 1) == nil)
        table.loaded("a", .success(new))
        // The holder of the old namespace can't remove the new one.
        table.forget(old)
        #expect(table.live("a") === new && table.live(id: 2) === new)
    }

    /// Every request from any thread is answered once, and one of them starts the load.
    @Test func manyAtOnce() {
        let table = NamespaceTable()
        let answers = Answers()
        let loads = MutexBox(0)
        let threads = (0..<8).map { _ in
            Thread(name: "asker") {
                for _ in 0..<100 where table.request("a", answers.take) {
                    loads.withLock { $0 += 1 }
                    table.loaded("a", .success(.test(name: "a")))
                }
            }
        }
        for thread in threads { thread.join() }
        #expect(loads.withLock { $0 } == 1)
        #expect(answers.all.count == 800)
    }
}
