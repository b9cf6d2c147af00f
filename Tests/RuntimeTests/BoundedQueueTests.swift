import Runtime
import Testing

/// Checks the transfer of items from one thread to another.
@Suite struct BoundedQueueTests {
    private struct Broken: Error, Equatable { let number: Int }

    @Test(arguments: [1, 2, 100]) func everythingComesInOrder(capacity: Int) throws {
        let conveyor = BoundedQueue<Int>(capacity: capacity)
        let maker = Thread(name: "maker") {
            for number in 0..<1_000 { _ = conveyor.put(number) }
            conveyor.end()
        }
        var taken: [Int] = []
        while let item = try conveyor.next() { taken.append(item) }
        maker.join()
        #expect(taken == Array(0..<1_000))
        #expect(try conveyor.next() == nil)
    }

    @Test func makersWaitForRoom() throws {
        let conveyor = BoundedQueue<Int>(capacity: 2)
        let ended = Condition(false)
        let maker = Thread(name: "maker") {
            for number in 0..<10 { _ = conveyor.put(number) }
            conveyor.end()
            ended.broadcast { $0 = true }
        }
        // Two items are buffered; the third is added when the first is taken.
        #expect(ended.wait(milliseconds: 50) { $0 ? true : nil } == nil)
        for number in 0..<10 { #expect(try conveyor.next() == number) }
        #expect(try conveyor.next() == nil)
        maker.join()
    }

    @Test func failuresFollowTheItemsBeforeThem() throws {
        let conveyor = BoundedQueue<Int>(capacity: 4)
        #expect(conveyor.put(1))
        #expect(conveyor.put(2))
        conveyor.end(Broken(number: 1))
        // The first error counts.
        conveyor.end(Broken(number: 2))
        #expect(try conveyor.next() == 1)
        #expect(try conveyor.next() == 2)
        for _ in 0..<2 { #expect(throws: Broken(number: 1)) { try conveyor.next() } }
    }

    @Test func aConsumerThatLeavesBlocksNoProducer() {
        let conveyor = BoundedQueue<Int>(capacity: 1)
        #expect(conveyor.put(1))
        let refused = Condition<Bool?>(nil)
        let maker = Thread(name: "maker") {
            let isWanted = conveyor.put(2)
            refused.broadcast { $0 = !isWanted }
        }
        #expect(!conveyor.isLeft)
        conveyor.leave()
        #expect(refused.wait { $0 } == true)
        maker.join()
        #expect(conveyor.isLeft)
        #expect(!conveyor.put(3))
    }
}
