import TestSupport
import Testing

@testable import Feeds

/// Checks against a sorted list that the earliest timer comes first after any insertions and removals.
@Suite struct TimerHeapTests {
    @Test func anEmptyOne() {
        var heap = TimerHeap<Int>()
        #expect(heap.earliest == nil && heap.count == 0)
        #expect(heap.take(by: .max) == nil)
        heap.keep { _, _ in true }
        heap.add(1, at: 5)
        #expect(heap.take(by: 4) == nil)
        #expect(heap.take(by: 5)?.item == 1)
        #expect(heap.take(by: .max) == nil && heap.earliest == nil)
    }

    @Test func onlyWhatIsWantedIsKept() {
        var heap = TimerHeap<Int>()
        for number in 0..<100 { heap.add(number, at: Int64((number * 37) % 100)) }
        heap.keep { time, item in
            #expect(time == Int64((item * 37) % 100))
            return item % 3 == 0
        }
        #expect(heap.count == 34)
        var times: [Int64] = []
        while let (time, item) = heap.take(by: .max) {
            #expect(item % 3 == 0 && time == Int64((item * 37) % 100))
            times.append(time)
        }
        #expect(times.count == 34 && times == times.sorted())
        heap.add(1, at: 1)
        heap.keep { _, _ in false }
        #expect(heap.earliest == nil)
    }

    @Test(arguments: 0..<20) func likeASortedList(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var heap = TimerHeap<Int>()
        var model: [(time: Int64, item: Int)] = []
        var now: Int64 = 0
        for number in 0..<500 {
            switch random.below(10) {
            case 0:
                let divisor = 2 + random.below(3)
                heap.keep { time, item in (Int(time) + item) % divisor != 0 }
                model.removeAll { (Int($0.time) + $0.item) % divisor == 0 }
            case 1...4:
                now += Int64(random.below(20))
                while let taken = heap.take(by: now) {
                    #expect(taken.time == model.map(\.time).min(), "seed \(seed)")
                    let index = model.firstIndex { $0.time == taken.time && $0.item == taken.item }
                    guard let index else {
                        Issue.record("seed \(seed): \(taken) was not in")
                        return
                    }
                    model.remove(at: index)
                }
                #expect(model.allSatisfy { $0.time > now }, "seed \(seed)")
            default:
                let time = now + Int64(random.below(50)) - 5
                heap.add(number, at: time)
                model.append((time, number))
            }
            #expect(heap.earliest == model.map(\.time).min() && heap.count == model.count, "seed \(seed)")
        }
    }
}
