import Runtime
import TestSupport
import Testing

@testable import Engine

/// Checks the assignment of work to committers, and its order.
@Suite struct CommitterJobsTests {
    /// The committers of a test, and the work that each received, in order.
    private final class Committers {
        let jobs: CommitterJobs
        private let given = MutexBox<[[String]]>([])
        private var threads: [Thread] = []

        init(_ count: Int) {
            jobs = CommitterJobs(committers: count)
            given.withLock { $0 = Array(repeating: [], count: count) }
        }

        /// Begins a committer that takes work until it is stopped.
        func begin(_ index: Int) {
            let (jobs, given) = (jobs, given)
            threads.append(
                Thread(name: "committer") {
                    while true {
                        let job = jobs.next(for: index).kind
                        if job == "stop" { return }
                        given.withLock { $0[index].append(job) }
                    }
                })
        }

        var all: [[String]] { given.withLock { $0 } }

        func waits(_ condition: @escaping ([[String]]) -> Bool) -> Bool { eventually { condition(self.all) } }

        func stop() {
            jobs.stop()
            for thread in threads { thread.join() }
        }
    }

    @Test func workIsTakenInOrder() {
        let jobs = CommitterJobs(committers: 1)
        for round in 0..<3 {
            for name in ["a", "b", "c"] { jobs.add(.work(.test(name: "\(name)\(round)"))) }
            #expect(jobs.next(for: 0).kind == "work a\(round)")
            jobs.add(.work(.test(name: "d\(round)")))
            #expect((0..<3).map { _ in jobs.next(for: 0).kind } == ["b", "c", "d"].map { "work \($0)\(round)" })
        }
    }

    @Test func unfinishedWorkFollowsWaitingWork() {
        let jobs = CommitterJobs(committers: 1)
        let namespace = LiveNamespace.test(name: "a")
        jobs.add(.work(namespace))
        #expect(jobs.next(for: 0).kind == "work a")
        jobs.add(.work(.test(name: "b")))
        #expect(jobs.next(for: 0, again: [namespace]).kind == "work b")
        #expect(jobs.next(for: 0).kind == "work a")
        #expect(jobs.next(for: 0, again: [namespace]).kind == "work a", "where nobody waits, it goes on at once")
    }

    /// Work that was begun comes before waiting work, in order, and is not combined with other work.
    @Test func whatWasBegunComesFirst() {
        let jobs = CommitterJobs(committers: 1)
        for name in ["a", "b", "c"] { jobs.add(.work(.test(name: name))) }
        #expect(jobs.next(for: 0).kind == "work a")
        #expect(jobs.takeNamespace()?.name == "b")
        jobs.addFirst(["x", "y"].map { .resume(BatchProgress([], in: .test(name: $0), isContended: false)) })
        #expect(jobs.takeNamespace() == nil)
        #expect((0..<3).map { _ in jobs.next(for: 0).kind } == ["go on x", "go on y", "work c"])
        #expect(!jobs.isWaitedFor && jobs.takeNamespace() == nil)
        jobs.stop()
        #expect(jobs.takeNamespace() == nil && jobs.isWaitedFor)
    }

    /// Work added at the front also wakes waiting committers.
    @Test func theFirstJobWakesAWaitingCommitter() {
        let committers = Committers(2)
        for index in 0..<2 { committers.begin(index) }
        defer { committers.stop() }
        #expect(eventually { committers.jobs.idleCount == 2 })
        committers.jobs.addFirst((0..<5).map { .work(.test(name: "\($0)")) })
        #expect(committers.waits { $0.joined().count == 5 })
    }

    /// Three committers wait; work that arrives one piece at a time is all done by the same committer.
    @Test func oneCommitterDoesWhatOneCanDo() {
        let committers = Committers(3)
        for index in 0..<3 { committers.begin(index) }
        defer { committers.stop() }
        // The committer that waits last works first: from then on it is always the same one.
        committers.jobs.add(.work(.test(name: "first")))
        #expect(committers.waits { $0.joined().count == 1 })
        for number in 2..<60 {
            // Each piece is added only when the one before is done and the committer waits again.
            #expect(eventually { committers.jobs.idleCount == 3 })
            committers.jobs.add(.work(.test(name: "\(number)")))
            #expect(committers.waits { $0.joined().count == number })
        }
        #expect(committers.all.filter { $0.count > 1 }.count == 1)
    }

    /// Several committers wait, and each piece of work is given to one of them.
    @Test func eachIsDoneOnce() {
        let committers = Committers(3)
        for index in 0..<3 { committers.begin(index) }
        for number in 0..<500 { committers.jobs.add(.work(.test(name: "\(number)"))) }
        #expect(committers.waits { $0.joined().count == 500 })
        committers.stop()
        #expect(Set(committers.all.joined()).count == 500)
    }
}

extension CommitterJobs.Job {
    var kind: String {
        switch self {
        case .work(let namespace): "work \(namespace.name)"
        case .resume(let progress): "go on \(progress.namespace.name)"
        case .stop: "stop"
        }
    }
}
