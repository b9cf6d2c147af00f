import LogStore
import Runtime

/// The thread that hands out messages: all feeds that this gateway works, one command after the other. Any thread may tell it
/// something.
final class FeedDispatcher: Sendable {
    private struct Inbox: Sendable {
        var commands: [FeedCommand] = []
        var stops = false
    }

    private let core: FeedCore
    private let troubles: FeedTroubles
    private let inbox = Condition(Inbox())
    let board = FeedBoard()

    /// - Parameter troubles: is told of feeds that can't be worked on.
    init(_ core: FeedCore, _ troubles: FeedTroubles) {
        self.core = core
        self.troubles = troubles
    }

    func post(_ command: FeedCommand) { inbox.signal { $0.commands.append(command) } }

    func found(_ findings: [LaneFinding]) {
        if !findings.isEmpty { post(.found(findings)) }
    }

    func stop() { inbox.broadcast { $0.stops = true } }

    /// Runs until `stop`; then what was done is written down.
    ///
    /// - Parameter look: Called at least once a second with the monotonic milliseconds, for others' deadlines.
    func run(_ readers: FeedReaders, _ writer: FeedWriter, _ look: (Milliseconds) -> Void) {
        let desk = FeedDesk(core, readers, writer, board, troubles) { [weak self] in self?.post($0) }
        while true {
            let pause = desk.millisecondsToNext(Clock.monotonicMilliseconds)
            let (commands, stops) =
                inbox.wait(milliseconds: pause) { inbox -> ([FeedCommand], Bool)? in
                    guard !inbox.commands.isEmpty || inbox.stops else { return nil }
                    defer { inbox.commands = [] }
                    return (inbox.commands, inbox.stops)
                } ?? ([], false)
            desk.handle(commands)
            look(Clock.monotonicMilliseconds)
            if stops { break }
        }
        desk.end()
    }
}

/// How the feeds fare that this gateway works; any thread may look.
final class FeedBoard: Sendable {
    private let reports = MutexBox<[FeedName: FeedReport]>([:])

    private let statuses = MutexBox<[(feed: FeedName, status: FeedStatusRecord)]>([])
    private let reading = MutexBox<Milliseconds>(0)

    func set(_ new: [FeedName: FeedReport]) { reports.withLock { $0 = new } }

    /// What the database knows of this gateway's feeds.
    ///
    /// - Parameter milliseconds: how long it took to read.
    func set(_ new: [(feed: FeedName, status: FeedStatusRecord)], readIn milliseconds: Milliseconds = 0) {
        statuses.withLock { $0 = new }
        reading.withLock { $0 = milliseconds }
    }

    /// How long it took to read that last.
    var readingMilliseconds: Milliseconds { reading.withLock { $0 } }

    var figures: [FeedFigures] {
        let known = reports.withLock { $0 }
        return statuses.withLock { $0 }.map { FeedFigures(feed: $0.feed, status: $0.status, report: known[$0.feed]) }
    }

    var all: [FeedReport] {
        reports.withLock { Array($0.values) }.sorted { "\($0.feed)" < "\($1.feed)" }
    }
}
