import TestSupport
import Testing
import Tree

@testable import Follower

struct FollowPlanTests {
    private func keys(_ texts: String...) -> [Key] { texts.map { Key($0) }.sorted() }

    @Test func aNewPlanIsOnePart() {
        let plan = FollowPlan()
        #expect(plan.isWhole)
        #expect(plan.parts == [FollowPart(whole: .root)])
    }

    /// Every key belongs to exactly one part after any splits.
    @Test func splitsCoverEachKeyOnce() throws {
        var plan = FollowPlan()
        _ = try plan.split(plan.parts[0], at: keys("a", "b", "c", "d", "e", "f", "g", "h"))
        #expect(plan.parts.count == 4)
        _ = try plan.split(plan.parts[1], at: keys("c"))
        _ = try plan.split(plan.parts[0], at: keys("a", "b"))
        for text in ["", "-", "1", "20", "a", "a1", "b", "c", "c0", "d", "zz", "😀"] {
            let key = Key(text)
            let covering = plan.parts.filter { part in
                part.isRange ? part.path.isRoot && part.includes(key) : part.path == Path([key])
            }
            #expect(covering.count == 1, "\(text)")
        }
    }

    @Test func onlyAValueWithChildrenCanBeSplit() {
        var plan = FollowPlan()
        #expect(throws: FollowPlan.SplitError.indivisible) { try plan.split(plan.parts[0], at: []) }
    }

    @Test func theNumberOfPartsIsBounded() throws {
        var plan = FollowPlan()
        #expect(throws: FollowPlan.SplitError.tooManyParts) {
            while true { _ = try plan.split(plan.parts[0], at: keys("1", "2", "3", "4")) }
        }
        #expect(plan.parts.count <= FollowPlan.maxParts)
    }

    @Test func plansAreStoredAndRead() throws {
        var plan = FollowPlan()
        _ = try plan.split(plan.parts[0], at: keys("a", "b\"", "c", "é", "users"))
        _ = try plan.split(plan.parts[0], at: keys("a"))
        #expect(FollowPlan(stored: plan.stored) == plan)
        #expect(FollowPlan(stored: FollowPlan().stored) == FollowPlan())
        for damaged in ["", "[]", "{}", "[1]", "[{}]", "[{\"path\":1}]"] { #expect(FollowPlan(stored: damaged) == nil) }
    }

    /// What `split` makes is accepted, and nothing that would leave a path without a listen.
    @Test(arguments: 1...40 as ClosedRange<UInt64>) func storedPlansCoverEverything(_ seed: UInt64) {
        var dice = SeededGenerator(seed: seed)
        var plan = FollowPlan()
        for _ in 0..<Int.random(in: 1...12, using: &dice) {
            guard let part = plan.parts.randomElement(using: &dice) else { return }
            let keys = ["a", "b", "c", "d", "1", "20"].shuffled(using: &dice).prefix(
                Int.random(in: 1...5, using: &dice))
            _ = try? plan.split(part, at: keys.map { Key($0) }.filter { !part.isRange || part.includes($0) }.sorted())
        }
        #expect(FollowPlan(stored: plan.stored) == plan)
        guard plan.parts.count > 1, let lost = plan.parts.indices.randomElement(using: &dice) else { return }
        var parts = plan.parts
        parts.remove(at: lost)
        #expect(FollowPlan(stored: FollowPlan(parts).stored) == nil, "without \(plan.parts[lost])")
    }

    @Test func plansWithGapsAreRefused() {
        for text in [
            #"[{"path":"/x","range":false}]"#, #"[{"path":"/","range":true,"from":"m"}]"#,
            #"[{"path":"/","range":false},{"path":"/","range":false}]"#,
            #"[{"path":"/","range":true,"before":"z"},{"path":"/","range":true,"after":"z"}]"#,
            #"[{"path":"/\#(String(repeating: "a/", count: 5_000))","range":false}]"#,
        ] { #expect(FollowPlan(stored: text) == nil, "\(text.prefix(60))") }
    }
}
