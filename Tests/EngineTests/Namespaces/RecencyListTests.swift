import TestSupport
import Testing

@testable import Engine

/// The order of last use, against a plain array.
@Suite struct RecencyListTests {
    @Test(arguments: [1, 2, 3, 4, 5] as [UInt64]) func agreesWithAnArray(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var list = RecencyList()
        var model: [Int] = []
        for _ in 0..<2_000 {
            let place = random.below(20)
            if let index = model.firstIndex(of: place) {
                model.remove(at: index)
                if random.oneIn(3) {
                    list.remove(place)
                } else {
                    list.use(place)
                    model.append(place)
                }
            } else {
                list.append(place)
                model.append(place)
            }
            #expect(list.first == model.first && list.count == model.count, "seed \(seed)")
        }
        while let first = list.first {
            #expect(first == model.removeFirst())
            list.remove(first)
        }
        #expect(model.isEmpty)
    }
}
