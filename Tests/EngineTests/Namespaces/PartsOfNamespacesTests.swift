import Rules
import Runtime
import Synchronization
import TestSupport
import Testing
import Tree

@testable import Engine

/// Who gets a part of a namespace that is being loaded.
@Suite struct PartsOfNamespacesTests {
    private final class Answers: Sendable {
        let results = Mutex<[Result<ReadableNamespace, EngineError>]>([])

        func read(_ text: String) -> PartRead { read(Path(splitting: text)) }

        func read(_ path: Path) -> PartRead {
            PartRead(path, query: nil, context: .plain, auth: .admin) { [self] result in
                results.withLock { $0.append(result) }
            }
        }

        var count: Int { results.withLock { $0.count } }
    }

    private let table = NamespaceTable()
    private let answers = Answers()

    private func ask(_ path: String, of name: String = "n") -> (PartRead, Int64?) {
        let read = answers.read(path)
        _ = table.request(name) { result in read.complete(result.map { .whole($0) }) }
        return (read, table.wait(for: read, of: name))
    }

    @Test func whoeverWaitsIsToldWhenItTurnsOutToBeLarge() {
        let (first, none) = ask("a")
        #expect(none == nil && !table.readsParts(of: "n", 7))
        #expect(table.turnedLarge("n", 7).map { $0 === first } == [true])
        #expect(table.turnedLarge("n", 7).isEmpty, "once")
        #expect(table.readsParts(of: "n", 7) && !table.readsParts(of: "n", 8) && !table.readsParts(of: "m", 7))
        #expect(ask("b").1 == 7)
        #expect(answers.count == 0)
    }

    @Test func nobodyGetsAPartOnceTheLoadIsAsGoodAsDone() {
        _ = ask("a")
        _ = table.turnedLarge("n", 7)
        #expect(table.answersPart(of: "n", 7, at: 5) && table.answersPart(of: "n", 7, at: 4))
        #expect(!table.answersPart(of: "n", 8, at: 9), "another one of that name")
        #expect(table.endParts(of: "n") == 5)
        #expect(!table.answersPart(of: "n", 7, at: 6) && !table.readsParts(of: "n", 7) && ask("b").1 == nil)
        // The load has failed, and begins anew.
        _ = table.turnedLarge("n", 7)
        #expect(table.answersPart(of: "n", 7, at: 6) && table.endParts(of: "n") == 6)
        table.loaded("n", .failure(.stopping))
        #expect(answers.count == 2 && table.endParts(of: "n") == 0)
    }

    @Test func whatIsTooLargeIsNotReadAgain() {
        _ = ask("a")
        _ = table.turnedLarge("n", 7)
        table.partIsTooLarge(at: Path(splitting: "a"), of: "n")
        #expect(ask("a").1 == nil && ask("a/b").1 == 7)
    }

    @Test func aReadIsAnsweredOnce() {
        let read = answers.read("a")
        #expect(read.isWaiting)
        read.refuse(.stopping)
        read.refuse(.moving)
        #expect(answers.count == 1 && !read.isWaiting)
    }

    @Test func theWholeAndPrioritiesAreNoParts() {
        for path in [Path.root, Path(splitting: "a/.priority"), Path([Key(String(repeating: "k", count: 2_000))])] {
            #expect(!answers.read(path).isOfAPart, "\(path)")
        }
        #expect(answers.read("a/b").isOfAPart)
    }

    @Test func whoeverHasGoneIsNotReadFor() {
        let read = answers.read("a")
        read.giveUp()
        #expect(!read.isWaiting)
        read.refuse(.stopping)
        #expect(answers.count == 0)
    }

    @Test func theQueueIsBounded() {
        let queue = PartQueue()
        func add(_ name: String, _ namespace: Int64) {
            queue.add(PartQueue.Item(read: answers.read("a"), name: name, namespace: namespace))
        }
        func names() -> [String] {
            var names: [String] = []
            while case .item(let item) = queue.next(milliseconds: 0) { names.append(item.name) }
            return names
        }
        for number in 0..<300 { add("n\(number)", 1) }
        #expect(names() == (0..<250).map { "n\($0)" }, "of one namespace")
        for number in 0..<1_200 { add("n\(number)", Int64(number % 10)) }
        #expect(names() == (0..<1_000).map { "n\($0)" })
        // Never empty for long.
        add("0", 1)
        for number in 1..<3_000 {
            add("\(number)", Int64(number % 3))
            guard case .item(let item) = queue.next(milliseconds: 0) else { return #expect(Bool(false), "empty") }
            #expect(item.name == "\(number - 1)")
        }
    }

    @Test func theQueueEnds() {
        let queue = PartQueue()
        queue.add(PartQueue.Item(read: answers.read("a"), name: "late", namespace: 1))
        queue.clear()
        if case .nothing = queue.next(milliseconds: 0) {} else { Issue.record("something is left") }
        queue.stop()
        queue.add(PartQueue.Item(read: answers.read("a"), name: "later", namespace: 1))
        if case .stop = queue.next(milliseconds: nil) {} else { Issue.record("it goes on") }
    }
}
