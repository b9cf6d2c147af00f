import Testing
import Tree

@testable import Rules

/// Checks that a viewer reads everything and writes nothing, whatever the rules are.
@Suite struct ViewerTests {
    private static let documents = [
        #"{"rules": {".read": false, ".write": false}}"#, #"{"rules": {".read": true, ".write": true}}"#,
        #"{"rules": {"a": {".read": "auth.uid === 'x'", ".write": "auth === null"}}}"#,
    ]

    private static var sets: [RuleSet] {
        get throws { try documents.map { try RuleSet(json: Array($0.utf8)) } + [.allowAll, .allowThisMachine] }
    }

    @Test(arguments: [false, true]) func readsAndDoesNotWrite(isElsewhere: Bool) throws {
        let viewer = AuthContext.viewer.at(isElsewhere: isElsewhere)
        #expect(viewer.isViewer && viewer.readsEverything && !viewer.isAdmin && viewer.isElsewhere == isElsewhere)
        for set in try Self.sets {
            for path in [Path.root, "/a", "/a/b"] as [Path] {
                #expect(set.mayRead(path, query: nil, root: .null, auth: viewer, now: 0).isAllowed)
                #expect(set.mayEverRead(path, query: .plain, auth: viewer, now: 0))
                #expect(!set.mayWrite([path], root: .null, newRoot: .null, auth: viewer, now: 0).isAllowed)
                #expect(set.refusal(of: path, .pathAndBelow, auth: viewer, now: 0)?.reason == .noWriteAllowed)
                #expect(set.refusal(of: path, .path, root: .null, auth: viewer, now: 0) != nil)
            }
            #expect(set.refusal(of: [Path.root], auth: viewer, now: 0) != nil)
            #expect(set.refusal(of: [Path.root], root: .null, auth: viewer, now: 0) != nil)
        }
    }

    @Test func othersAreNoViewers() {
        for context in [AuthContext.admin, .unauthenticated, AuthContext(auth: .string("x"), isElsewhere: true)] {
            #expect(!context.isViewer && context.readsEverything == context.isAdmin)
            #expect(context.at(isElsewhere: true).isAdmin == context.isAdmin)
        }
    }
}
