import Testing
import Tree

@testable import Follower

/// Checks when a follower submits the upstream's rules.
@Suite struct RulesAdoptionTests {
    private static let open = Array(#"{"rules": {".read": true}}"#.utf8)
    private static let other = Array(#"{"rules": {".read": "auth != null"}}"#.utf8)
    private static let data = Node(children: [(Key("a"), .bool(true))])

    /// Expects a condition that changes its operands, which the macro does not permit.
    private func check(_ isTrue: Bool, _ comment: Comment? = nil, at place: SourceLocation = #_sourceLocation) {
        #expect(isTrue, comment, sourceLocation: place)
    }

    private func submitted(
        _ adoption: inout RulesAdoption, _ rules: [UInt8]?, root: Node = data, isInFlight: Bool = false,
        problem: String? = nil
    ) -> [UInt8]? {
        check(adoption.asks())
        return adoption.rulesToSubmit(
            for: FollowedState(root: root, rules: rules), isInFlight: isInFlight, problem: { _ in problem })
    }

    @Test func anEmptyNamespaceAdoptsThemFirst() {
        var adoption = RulesAdoption(isUsed: true, hasAdopted: false)
        #expect(adoption.isAwaited)
        adoption.found(Self.open)
        check(submitted(&adoption, nil, root: .null) == Self.open)
        #expect(!adoption.isAwaited && adoption.digest == nil)
        check(adoption.ended(1))
        check(submitted(&adoption, Self.open) == nil)
        #expect(adoption.digest != nil)
    }

    @Test func dataOfItsOwnIsClosedUntilItIsTheUpstreams() {
        var adoption = RulesAdoption(isUsed: true, hasAdopted: false)
        adoption.found(Self.open)
        check(submitted(&adoption, nil) == RulesAdoption.closed)
        #expect(!adoption.isAwaited)
        check(submitted(&adoption, RulesAdoption.closed) == nil && adoption.digest == nil)
        check(adoption.synchronized())
        check(submitted(&adoption, RulesAdoption.closed) == Self.open)
        check(!adoption.synchronized())
    }

    /// Rules that were lost after a refused message, or that an administrator changed, are submitted again.
    @Test func theNamespacesRulesDecide() {
        var adoption = RulesAdoption(isUsed: true, hasAdopted: true)
        adoption.found(Self.open)
        check(submitted(&adoption, Self.other) == Self.open)
        check(submitted(&adoption, Self.other, isInFlight: true) == nil)
        check(submitted(&adoption, Self.other) == Self.open)
        adoption.found(Self.other)
        check(submitted(&adoption, Self.other) == nil)
    }

    @Test func whatCanNotBeEvaluatedLetsNobodyRead() {
        var adoption = RulesAdoption(isUsed: true, hasAdopted: true)
        adoption.found(Self.open)
        check(submitted(&adoption, Self.open, problem: "line 1\nline 2") == RulesAdoption.closed)
        #expect(adoption.problem?.contains("line 1 line 2") == true)
        adoption.found(Self.other)
        check(submitted(&adoption, RulesAdoption.closed) == Self.other && adoption.problem == nil)
    }

    /// A namespace that stores rules in another form must not cause an endless number of entries.
    @Test func theSameRulesAreSubmittedThreeTimesAtMost() {
        var adoption = RulesAdoption(isUsed: true, hasAdopted: true)
        adoption.found(Self.open)
        for attempt in 1...10 { #expect((submitted(&adoption, nil) != nil) == (attempt <= 3)) }
        adoption.found(Self.open)
        check(submitted(&adoption, nil) == Self.open)
    }

    @Test func oneReadAtATime() {
        var adoption = RulesAdoption(isUsed: true, hasAdopted: true)
        check(!adoption.asks(), "there are no rules to compare")
        adoption.found(Self.open)
        check(adoption.asks() && !adoption.asks())
        _ = adoption.rulesToSubmit(
            for: FollowedState(root: .null, rules: nil), isInFlight: false, problem: { _ in nil })
        #expect(adoption.retryAt == 0, "the state is read again, because it may have changed")
        let asks = adoption.asks()
        #expect(asks)
        adoption.failed(retryAt: 7)
        check(adoption.retryAt == 7 && adoption.asks())
        var unused = RulesAdoption(isUsed: false, hasAdopted: false)
        unused.found(Self.open)
        check(!unused.asks() && !unused.isAwaited && !unused.ended(1) && !unused.synchronized())
    }
}
