import LogStore
import Testing

/// What follows from whatever a mover finds: see `MoveMachine`.
@Suite struct MoveMachineTests {
    private static let sources: [MoveFacts.Source] = [.living, .former, .unknown]
    private static let copies: [MoveFacts.Copy] = [
        .none, .there(isOfTheSource: true, isWhole: true), .there(isOfTheSource: true, isWhole: false),
        .there(isOfTheSource: false, isWhole: true), .there(isOfTheSource: false, isWhole: false),
    ]

    private static func next(
        _ record: MoveFacts.Record?, _ source: MoveFacts.Source, _ copy: MoveFacts.Copy,
        _ wish: MoveMachine.Wish = .move
    ) -> MoveMachine.Step {
        MoveMachine.next(wish, MoveFacts(record: record, source: source, copy: copy))
    }

    private static let part = MoveFacts.Copy.there(isOfTheSource: true, isWhole: false)
    private static let whole = MoveFacts.Copy.there(isOfTheSource: true, isWhole: true)

    @Test func aMoveFromItsBeginToItsEnd() {
        #expect(Self.next(nil, .living, .none) == .begin)
        #expect(Self.next(.copying, .living, .none) == .copyAnew)
        #expect(Self.next(.copying, .living, Self.part) == .follow)
        #expect(Self.next(.copying, .former, Self.whole) == .change)
        #expect(Self.next(.left, .former, Self.whole) == .clearUp)
        #expect(Self.next(.left, .unknown, Self.part) == .clearUp)
    }

    @Test func aCopyOfAnotherHistoryIsNotGoneOnWith() {
        #expect(Self.next(.copying, .living, .there(isOfTheSource: false, isWhole: false)) == .copyAnew)
    }

    @Test func goingBack() {
        for copy in Self.copies { #expect(Self.next(.copying, .living, copy, .abort) == .goBack) }
        #expect(Self.next(.copying, .former, Self.whole, .abort) == .refuse(.tooLateToAbort))
        #expect(Self.next(.left, .former, Self.whole, .abort) == .refuse(.tooLateToAbort))
        #expect(Self.next(nil, .living, .none, .abort) == .done)
    }

    /// Nothing is removed from the source that the target has not, and no copy that is the only one.
    @Test func nothingIsThrownAwayThatIsNowhereElse() {
        for wish in [MoveMachine.Wish.move, .abort] {
            for source in Self.sources {
                for copy in Self.copies {
                    for record in [MoveFacts.Record.copying, .left] {
                        let step = Self.next(record, source, copy, wish)
                        if step == .goBack || step == .copyAnew { #expect(source != .former && record == .copying) }
                        guard step == .clearUp, source == .former else { continue }
                        #expect(copy == Self.whole || copy == .there(isOfTheSource: false, isWhole: true))
                    }
                }
            }
        }
        #expect(Self.next(.copying, .former, Self.part) == .refuse(.targetLostIt))
        #expect(Self.next(.left, .former, .none) == .refuse(.targetLostIt))
    }
}
