import TestSupport
import Testing

@testable import Engine

/// Checks the order of last use against a plain array.
@Suite struct RecencyListTests {
    @Test(arguments: [1, 2, 3, 4, 5] as [UInt64]) func agreesWithAnArray(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var list = RecencyList()
        var model: [Int] = []
        var uses: [Int: Int64] = [:]
        for step in 0..<2_000 {
            let now = Int64(step / 3)
            let element = random.below(20)
            if let index = model.firstIndex(of: element) {
                model.remove(at: index)
                if random.oneIn(3) {
                    list.remove(element)
                } else {
                    list.use(element, at: now)
                    uses[element] = now
                    model.append(element)
                }
            } else {
                list.append(element, at: now)
                uses[element] = now
                model.append(element)
            }
            #expect(model.allSatisfy { list.lastUse(of: $0) == uses[$0] }, "seed \(seed)")
            var order: [Int] = []
            var next = list.first
            while let element = next {
                order.append(element)
                next = list.next(after: element)
            }
            #expect(order == model, "seed \(seed)")
            #expect(list.first == model.first && list.count == model.count, "seed \(seed)")
        }
        while let first = list.first {
            #expect(first == model.removeFirst())
            list.remove(first)
        }
        #expect(model.isEmpty)
    }
}
