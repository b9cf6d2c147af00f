import Glibc
import Runtime
import Testing

/// Checks waiting, waking and deadlines of a lock with a condition.
@Suite struct ConditionTests {
    @Test func waitsForWhatAnotherThreadDoes() {
        let condition = Condition(0)
        let thread = Thread(name: "counter") {
            for _ in 0..<1_000 { condition.signal { $0 += 1 } }
        }
        #expect(condition.wait(milliseconds: 20_000) { $0 == 1_000 ? $0 : nil } == 1_000)
        thread.join()
        thread.join()
    }

    @Test(arguments: [0, 1, 30, 1_020] as [Int64])
    func aDeadlineIsNotShorterThanItSays(milliseconds: Int64) {
        let condition = Condition(0)
        let start = Clock.monotonicNanoseconds
        #expect(condition.wait(milliseconds: milliseconds) { _ in nil as Int? } == nil)
        #expect(Clock.monotonicNanoseconds - start >= UInt64(milliseconds) * 1_000_000)
    }

    /// A value that is already there is taken without waiting, even after the deadline.
    @Test(arguments: [nil, 0, 1_000_000] as [Int64?])
    func whatIsThereIsTakenAtOnce(milliseconds: Int64?) {
        let condition = Condition([1, 2])
        #expect(condition.wait(milliseconds: milliseconds) { $0.popLast() } == 2)
        #expect(condition.withLock { $0 } == [1])
    }

    /// The body runs once more at the deadline, so that a value that arrives at the same time is not lost.
    @Test func theLastLookIsAtTheDeadline() {
        let condition = Condition(0)
        let found = condition.wait(milliseconds: 5) { looks -> Int? in
            looks += 1
            return looks == 2 ? looks : nil
        }
        #expect(found == 2)
    }

    /// Each of many waiting threads takes one item: no thread keeps waiting while there is an item for it.
    @Test func signalsReachAsManyAsThereIsWorkFor() {
        let condition = Condition((given: 0, taken: [Int]()))
        let threads = (0..<8).map { index in
            Thread(name: "taker") {
                for _ in 0..<50 {
                    _ = condition.wait { state -> Bool? in
                        guard state.given > 0 else { return nil }
                        state.given -= 1
                        state.taken.append(index)
                        return true
                    }
                }
            }
        }
        for _ in 0..<400 { condition.signal { $0.given += 1 } }
        for thread in threads { thread.join() }
        let state = condition.withLock { $0 }
        #expect(state.given == 0)
        #expect(state.taken.count == 400)
        for index in 0..<8 { #expect(state.taken.count { $0 == index } == 50) }
    }

    @Test func aBroadcastWakesAll() {
        let condition = Condition((waiting: 0, isOpen: false))
        let threads = (0..<6).map { _ in
            Thread(name: "waiter") {
                condition.broadcast { $0.waiting += 1 }
                _ = condition.wait { $0.isOpen ? true : nil }
            }
        }
        #expect(condition.wait(milliseconds: 20_000) { $0.waiting == 6 ? true : nil } == true)
        condition.broadcast { $0.isOpen = true }
        for thread in threads { thread.join() }
    }

    /// Bodies are never run by two threads at a time.
    @Test func bodiesAreAlone() {
        let condition = Condition((inside: 0, most: 0, runs: 0))
        let threads = (0..<4).map { index in
            Thread(name: "body") {
                for _ in 0..<500 {
                    func enter(_ state: inout (inside: Int, most: Int, runs: Int)) {
                        state.inside += 1
                        state.most = max(state.most, state.inside)
                        state.runs += 1
                        state.inside -= 1
                    }
                    switch index {
                    case 0: condition.withLock { enter(&$0) }
                    case 1: condition.signal { enter(&$0) }
                    case 2: condition.broadcast { enter(&$0) }
                    default:
                        _ = condition.wait { state -> Bool? in
                            enter(&state)
                            return true
                        }
                    }
                }
            }
        }
        for thread in threads { thread.join() }
        let state = condition.withLock { $0 }
        #expect(state.most == 1)
        #expect(state.runs == 2_000)
    }
}

@Suite struct MutexBoxTests {
    @Test func isSharedByReference() {
        let box = MutexBox([0])
        let threads = (0..<4).map { index in
            Thread(name: "box") { for _ in 0..<250 { box.withLock { $0.append(index) } } }
        }
        for thread in threads { thread.join() }
        #expect(box.withLock { $0.count } == 1_001)
        #expect(box.withLock { value -> Int in value.removeFirst() } == 0)
    }
}
