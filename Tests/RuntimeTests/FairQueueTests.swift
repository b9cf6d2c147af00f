import Runtime
import Testing

/// Checks that the queue of items that wait for slots is fair between groups and members, bounded, and in order.
@Suite struct FairQueueTests {
    /// A reference to the queue, as `#expect` accepts no mutating calls.
    private final class Queue {
        typealias Items = FairQueue<String, String, Int>
        private var items: Items

        init(slots: Int, capacity: Int) { items = Items(slots: slots, capacity: capacity) }

        var count: Int { items.count }
        var inService: Int { items.inService }
        var nextDeadline: Milliseconds? { items.nextDeadline }

        func add(
            _ item: Int, for member: String, of group: String, isUrgent: Bool = false, deadline: Milliseconds? = nil
        ) -> Items.Ticket? {
            items.add(item, for: member, of: group, isUrgent: isUrgent, deadline: deadline)
        }

        func next() -> Items.Served? { items.next() }
        func finish(_ member: String, of group: String) { items.finish(member, of: group) }
        func remove(_ ticket: Items.Ticket) -> Int? { items.remove(ticket) }
        func expire(at now: Milliseconds) -> [Int] { items.expire(at: now) }
        func removeAll() -> [Int] { items.removeAll() }
    }

    @Test func aBusyGroupDelaysNoOther() {
        let queue = Queue(slots: 10, capacity: 10_000)
        for number in 0..<1_000 { #expect(queue.add(number, for: "\(number % 20)", of: "busy") != nil) }
        var served: [String] = []
        while let next = queue.next() { served.append(next.group) }
        #expect(served.count == 5)
        #expect(queue.add(-1, for: "feed", of: "quiet") != nil)
        #expect(queue.next()?.item == -1)
    }

    /// A member with one item at a time and a member with many alternate at one slot.
    @Test func membersTakeTurns() {
        let queue = Queue(slots: 1, capacity: 10_000)
        for number in 0..<100 { #expect(queue.add(number, for: "many", of: "a") != nil) }
        var served: [String] = []
        for _ in 0..<20 {
            if queue.add(1_000, for: "one", of: "a") == nil { Issue.record("no place") }
            guard let next = queue.next() else { break }
            served.append(next.member)
            queue.finish(next.member, of: next.group)
        }
        #expect(served.filter { $0 == "one" }.count == 10)
        #expect(served.count == 20)
    }

    @Test func urgentItemsOvertakeThoseOfTheirMember() {
        let queue = Queue(slots: 1, capacity: 100)
        for number in 0..<3 { #expect(queue.add(number, for: "m", of: "a") != nil) }
        #expect(queue.add(9, for: "m", of: "a", isUrgent: true) != nil)
        var order: [Int] = []
        while let next = queue.next() {
            order.append(next.item)
            queue.finish(next.member, of: next.group)
        }
        #expect(order == [9, 0, 1, 2])
    }

    @Test func expiredItemsAreHandedBackOnce() {
        let queue = Queue(slots: 1, capacity: 100)
        #expect(queue.add(1, for: "m", of: "a", deadline: 50) != nil)
        let removed = queue.add(2, for: "m", of: "a", deadline: 10)
        #expect(queue.add(3, for: "n", of: "b", deadline: 20) != nil)
        #expect(queue.add(4, for: "n", of: "b") != nil)
        #expect(removed.flatMap { queue.remove($0) } == 2)
        #expect(removed.flatMap { queue.remove($0) } == nil)
        #expect(queue.nextDeadline == 20)
        #expect(queue.expire(at: 50) == [3, 1])
        #expect(queue.nextDeadline == nil)
        #expect(queue.removeAll() == [4])
        #expect(queue.next()?.item == nil)
    }

    @Test func capacityIsShared() {
        let queue = Queue(slots: 1, capacity: 100)
        var waiting = 0
        while queue.add(0, for: "m", of: "busy") != nil { waiting += 1 }
        #expect(waiting == 25)
        #expect(queue.add(0, for: "m", of: "quiet") != nil)
    }

    /// Compares random operations with a plain model: each item leaves once, in its member's order, and never against
    /// the rule.
    @Test(arguments: 0..<40) func agreesWithAModel(seed: UInt64) {
        struct Key: Hashable {
            let group: String
            let member: String
        }
        var generator = SplitMix(state: seed)
        let slots = Int.random(in: 1...12, using: &generator)
        let queue = Queue(slots: slots, capacity: 60)
        var lines: [Key: [(number: Int, ticket: FairQueue<String, String, Int>.Ticket)]] = [:]
        var ledger = FairLedger<String, String>(capacity: slots)
        var serving: [Key] = []
        for number in 0..<1_500 {
            let key = Key(
                group: "\(Int.random(in: 0..<4, using: &generator))",
                member: "\(Int.random(in: 0..<3, using: &generator))")
            switch Int.random(in: 0..<10, using: &generator) {
            case 0..<5:
                if let ticket = queue.add(number, for: key.member, of: key.group) {
                    lines[key, default: []].append((number, ticket))
                }
            case 5..<8:
                let next = queue.next()
                let eligible = lines.filter {
                    !$0.value.isEmpty && ledger.allows(for: $0.key.member, of: $0.key.group)
                }
                #expect((next?.item == nil) == eligible.isEmpty)
                guard let next else { continue }
                let served = Key(group: next.group, member: next.member)
                #expect(eligible[served]?.first?.number == next.item)
                lines[served]?.removeFirst()
                ledger.charge(1, to: served.member, of: served.group)
                serving.append(served)
            case 8:
                guard let index = serving.indices.randomElement(using: &generator) else { continue }
                let done = serving.remove(at: index)
                queue.finish(done.member, of: done.group)
                ledger.release(by: done.member, of: done.group)
            default:
                guard let index = lines[key]?.indices.randomElement(using: &generator),
                    let removed = lines[key]?.remove(at: index)
                else { continue }
                #expect(queue.remove(removed.ticket) == removed.number)
            }
            #expect(queue.count == lines.values.reduce(0) { $0 + $1.count })
            #expect(queue.inService == serving.count)
        }
    }

    private struct SplitMix: RandomNumberGenerator {
        var state: UInt64
        mutating func next() -> UInt64 {
            state &+= 0x9E37_79B9_7F4A_7C15
            var mixed = state
            mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
            mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
            return mixed ^ (mixed >> 31)
        }
    }
}
