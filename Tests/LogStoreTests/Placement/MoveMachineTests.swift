import LogStore
import Testing

/// Tests of the decisions of `MoveMachine` for all combinations of facts.
@Suite struct MoveMachineTests {
    private static let sources: [MoveFacts.Source] = [.living, .former, .removed, .unknown]
    private static let copies: [MoveFacts.Copy] =
        [MoveFacts.Copy.none]
        + [true, false].flatMap { first in
            [
                .dormant(isOfTheSource: first, isWhole: true), .dormant(isOfTheSource: first, isWhole: false),
                .arrived(isWhole: first), .stranger(isOfThisSource: first),
            ]
        }

    /// All combinations.
    private static let all: [(MoveMachine.Wish, MoveFacts)] = {
        var found: [(MoveMachine.Wish, MoveFacts)] = []
        for wish in MoveMachine.Wish.allCases {
            for record in [nil, MoveFacts.Record.copying, .left] {
                for source in sources {
                    for copy in copies {
                        for isNameTaken in [false, true] {
                            found.append(
                                (
                                    wish,
                                    MoveFacts(record: record, source: source, copy: copy, isNameTaken: isNameTaken)
                                ))
                        }
                    }
                }
            }
        }
        return found
    }()

    private static func next(
        _ record: MoveFacts.Record?, _ source: MoveFacts.Source, _ copy: MoveFacts.Copy,
        _ wish: MoveMachine.Wish = .move, isNameTaken: Bool = false
    ) -> MoveMachine.Step {
        MoveMachine.next(wish, MoveFacts(record: record, source: source, copy: copy, isNameTaken: isNameTaken))
    }

    private static let part = MoveFacts.Copy.dormant(isOfTheSource: true, isWhole: false)
    private static let whole = MoveFacts.Copy.dormant(isOfTheSource: true, isWhole: true)

    private static func isWhole(_ copy: MoveFacts.Copy) -> Bool {
        switch copy {
        case .dormant(_, let isWhole), .arrived(let isWhole): isWhole
        case .none, .stranger: false
        }
    }

    private static func isArrived(_ copy: MoveFacts.Copy) -> Bool {
        if case .arrived = copy { true } else { false }
    }

    @Test func aMoveFromItsBeginToItsEnd() {
        #expect(Self.next(nil, .living, .none) == .begin)
        #expect(Self.next(.copying, .living, .none) == .makeCopy)
        #expect(Self.next(.copying, .living, Self.part) == .follow)
        #expect(Self.next(.copying, .former, Self.whole) == .arrive)
        #expect(Self.next(.copying, .former, .arrived(isWhole: true)) == .change)
        #expect(Self.next(.left, .former, .arrived(isWhole: true)) == .clearUp)
    }

    @Test func goingBack() {
        for copy in Self.copies where !Self.isArrived(copy) {
            #expect(Self.next(.copying, .living, copy, .abort) == .goBack)
            #expect(Self.next(.copying, .living, copy, .abort, isNameTaken: true) == .goBack)
        }
        #expect(Self.next(.copying, .former, Self.whole, .abort) == .refuse(.tooLateToAbort))
        #expect(Self.next(.copying, .former, .arrived(isWhole: true), .abort) == .refuse(.tooLateToAbort))
        #expect(Self.next(.left, .former, .arrived(isWhole: true), .abort) == .refuse(.tooLateToAbort))
        #expect(Self.next(nil, .living, .none, .abort) == .done)
        #expect(Self.next(nil, .unknown, .none, .abort) == .refuse(.unknown))
    }

    /// Checks that a dormant copy is deleted only if the source is live and an abort is requested, or if the namespace
    /// was removed from the source.
    @Test func noCopyGoesThatMightBeTheOnlyOne() {
        for (wish, facts) in Self.all where MoveMachine.next(wish, facts) == .goBack {
            #expect(facts.record == .copying && !Self.isArrived(facts.copy), "\(wish) \(facts)")
            #expect(facts.source == .removed || facts.source == .living && wish == .abort, "\(wish) \(facts)")
        }
    }

    /// Checks that the source's remaining data is deleted only if the target is live and complete.
    @Test func theSourceIsClearedWhereTheTargetHasAll() {
        for (wish, facts) in Self.all where MoveMachine.next(wish, facts) == .clearUp {
            #expect(facts.record == .left && facts.source == .former, "\(wish) \(facts)")
            #expect(facts.copy == .arrived(isWhole: true), "\(wish) \(facts)")
        }
    }

    /// Checks that no step makes a namespace live in two databases, nor in a database that the primary database does
    /// not list.
    @Test func aCopyComesToLiveWhereTheSourceHasLetItGo() {
        for (wish, facts) in Self.all {
            switch MoveMachine.next(wish, facts) {
            case .arrive:
                #expect(facts.source == .former && Self.isWhole(facts.copy) && !facts.isNameTaken, "\(wish) \(facts)")
                #expect(facts.record != nil && wish == .move)
            case .change, .forget:
                #expect(Self.isArrived(facts.copy) && facts.source != .living && wish == .move, "\(wish) \(facts)")
            case .follow, .makeCopy:
                #expect(facts.source == .living && facts.record == .copying && wish == .move, "\(wish) \(facts)")
                #expect(!Self.isArrived(facts.copy) && !facts.isNameTaken)
            case .begin, .adopt:
                #expect(facts.source == .living && facts.record == nil, "\(wish) \(facts)")
            case .clearUp, .goBack, .done, .refuse: break
            }
        }
    }

    @Test func aCopyIsMadeWhereThereIsNone() {
        for (wish, facts) in Self.all where MoveMachine.next(wish, facts) == .makeCopy { #expect(facts.copy == .none) }
    }

    /// Checks that states that result from a restored backup are refused or resolved safely.
    @Test func backups() {
        // The primary database, and with it the source, was restored to the middle of the move.
        #expect(Self.next(.copying, .living, .arrived(isWhole: false)) == .refuse(.livesInBoth))
        // Only the primary database was restored: the same command continues.
        #expect(Self.next(.copying, .former, .arrived(isWhole: true)) == .change)
        #expect(Self.next(nil, .living, .stranger(isOfThisSource: true)) == .adopt)
        #expect(Self.next(nil, .living, .stranger(isOfThisSource: false)) == .refuse(.copyOfAnotherMove))
        #expect(Self.next(nil, .living, .none, isNameTaken: true) == .refuse(.nameTaken))
        #expect(Self.next(nil, .unknown, .stranger(isOfThisSource: false)) == .refuse(.unknown))
        // The source was restored.
        #expect(Self.next(.copying, .unknown, Self.whole) == .refuse(.sourceLostIt))
        #expect(Self.next(.copying, .unknown, Self.whole, .abort) == .refuse(.sourceLostIt))
        #expect(
            Self.next(.copying, .living, .dormant(isOfTheSource: false, isWhole: false)) == .refuse(.copyIsAhead))
        let facts = MoveFacts(
            record: .copying, source: .living, copy: .dormant(isOfTheSource: false, isWhole: false), isNameTaken: false,
            isLogShortened: true)
        #expect(MoveMachine.next(.move, facts) == .refuse(.logShortened))
        #expect(MoveMachine.next(.abort, facts) == .goBack)
        #expect(Self.next(.left, .living, .arrived(isWhole: false)) == .refuse(.livesInBoth))
        // The target was restored.
        #expect(Self.next(.copying, .former, Self.part) == .refuse(.targetLostIt))
        #expect(Self.next(.copying, .former, .none) == .refuse(.targetLostIt))
        #expect(Self.next(.left, .former, .none) == .refuse(.targetLostIt))
        // The target was restored to just before the activation, and is complete.
        #expect(Self.next(.left, .former, Self.whole) == .arrive)
        #expect(Self.next(.left, .former, Self.whole, .abort) == .refuse(.tooLateToAbort))
        #expect(Self.next(.copying, .living, .none, isNameTaken: true) == .refuse(.nameTaken))
    }
}
