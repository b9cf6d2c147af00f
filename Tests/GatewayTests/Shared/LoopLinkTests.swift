import TestSupport
import Testing

@testable import Gateway
@testable import HTTPServer

/// Tests of work that is posted to a loop, and of how much work is done at a time.
@Suite struct LoopLinkTests {
    private final class Notebook {
        var notes: [Int] = []
        var slices: [Int] = []
    }

    @Test func workIsDoneInTheOrderOfPosting() throws {
        try withLoop { test in
            let owner = LoopBound(Notebook())
            let link = try test.on {
                let link = LoopLink<Notebook>(test.loop)
                link.lead(to: owner.content)
                return link
            }
            for number in 0..<100 { link.post { $0.notes.append(number) } }
            #expect(try test.on { owner.content.notes } == Array(0..<100))
        }
    }

    @Test func ownersThatAreGoneAreNotReached() throws {
        try withLoop { test in
            let owner = LoopBound<Notebook?>(Notebook())
            let link = try test.on {
                let link = LoopLink<Notebook>(test.loop)
                owner.content.map(link.lead)
                return link
            }
            let reached = LoopBound(0)
            link.post { _ in reached.content += 1 }
            try test.settle()
            try test.on { owner.content = nil }
            link.post { _ in reached.content += 1 }
            #expect(try test.on { reached.content } == 1)
        }
    }

    @Test func linksLeadNowhereWithoutAnAddress() throws {
        try withLoop { test in
            let link = LoopLink<Notebook>(test.loop)
            let reached = LoopBound(false)
            link.post { _ in reached.content = true }
            let isReached = try test.on { reached.content }
            #expect(!isReached)
        }
    }

    /// Checks that each item is processed once and in order, and that `completion` runs last, for any division into
    /// slices.
    @Test(arguments: [0, 1, 7, 40])
    func manyAreDoneInSlices(_ count: Int) throws {
        try withLoop { test in
            let owner = LoopBound(Notebook())
            let isDone = LoopBound(false)
            try test.on {
                let link = LoopLink<Notebook>(test.loop)
                link.lead(to: owner.content)
                link.inSlices(Array(0..<count), of: owner.content) { notebook, item in
                    notebook.notes.append(item)
                    // Takes longer than a slice.
                    let end = ContinuousClock.now + .milliseconds(1)
                    while ContinuousClock.now < end {}
                } then: { notebook in
                    notebook.slices.append(notebook.notes.count)
                    isDone.content = true
                }
            }
            #expect(try eventually { try test.on { isDone.content } })
            try test.on {
                #expect(owner.content.notes == Array(0..<count))
                #expect(owner.content.slices == [count])
            }
        }
    }

    /// Checks that other posted work runs between the slices and does not wait for all of them.
    @Test func othersAreServedBetweenSlices() throws {
        try withLoop { test in
            let owner = LoopBound(Notebook())
            let seen = LoopBound(-1)
            try test.on {
                let link = LoopLink<Notebook>(test.loop)
                link.lead(to: owner.content)
                link.post { seen.content = $0.notes.count }
                link.inSlices(Array(0..<50), of: owner.content) { notebook, item in
                    notebook.notes.append(item)
                    let end = ContinuousClock.now + .milliseconds(1)
                    while ContinuousClock.now < end {}
                }
            }
            #expect(try eventually { try test.on { owner.content.notes.count == 50 } })
            let count = try test.on { seen.content }
            #expect(count > 0 && count < 50, "\(count)")
        }
    }
}
