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
}
