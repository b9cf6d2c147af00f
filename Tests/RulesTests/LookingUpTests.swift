import Rules
import Testing
import Tree

/// Judging a read by places that are looked up one by one.
@Suite struct LookingUpTests {
    private let data = """
        {"members": {"u": true}, "rooms": {"r": {"owner": "u", "open": {".value": false, ".priority": 3}, "log": {"a": 1, "b": 2}}}}
        """

    private func judge(
        _ rule: String, uid: String = "u", isLost: @escaping (Path) -> Bool = { _ in false }
    ) throws -> (allowed: Bool?, asked: [Path]) {
        let rules = try rules("{\"rules\": {\"rooms\": {\"$room\": {\".read\": \"\(rule)\"}}}}")
        let auth = AuthContext(auth: try JSONParser.parse("{\"uid\": \"\(uid)\"}"))
        let places = SketchedPlaces(try JSONParser.parse(data))
        places.isLost = isLost
        let decision = rules.mayRead("rooms/r/log", query: .plain, lookingUp: places, auth: auth, now: 10)
        return (decision?.isAllowed, places.asked)
    }

    @Test func onlyWhatARuleAsksForIsLookedUp() throws {
        #expect(try judge("auth.uid == 'u'") == (true, []))
        #expect(try judge("auth.uid == 'v' && data.exists()") == (false, []))
        #expect(try judge("data.child('owner').val() == auth.uid") == (true, ["rooms/r/owner"]))
        #expect(try judge("data.child('owner').val() == auth.uid", uid: "v") == (false, ["rooms/r/owner"]))
        #expect(try judge("root.child('members').child(auth.uid).exists()") == (true, ["members/u"]))
        #expect(try judge("root.child('members/' + auth.uid).val() == true", uid: "v") == (false, ["members/v"]))
        #expect(try judge("data.parent().parent().child('members').hasChildren([auth.uid])") == (true, ["members/u"]))
        #expect(try judge("data.child('open').getPriority() == 3") == (true, ["rooms/r/open"]))
        #expect(try judge("data.child('log').hasChildren()") == (true, ["rooms/r/log"]))
    }

    @Test func itemsOfAListAreLookedUpWhereverTheyAre() throws {
        let (allowed, asked) = try judge("data.hasChildren(['owner', 'log', 'none'])")
        #expect(allowed == false && asked == ["rooms/r/owner", "rooms/r/log", "rooms/r/none"])
        #expect(try judge("data.hasChildren(['owner', 'log'])").allowed == true)
    }

    /// A tree has no child of such a key; a table has a row for a priority.
    @Test func whatCanNotBeAKeyIsNotLookedUp() throws {
        #expect(try judge("data.child('open/.priority').exists()") == (false, []))
        #expect(try judge("root.child(auth.uid).exists()", uid: "a.b#c") == (false, []))
        #expect(try judge("root.child(auth.uid).exists()", uid: String(repeating: "k", count: 800)) == (false, []))
        let deep = Array(repeating: "k", count: 40).joined(separator: "/")
        #expect(try judge("root.child(auth.uid).exists()", uid: deep) == (false, []))
    }

    @Test func whatCanNotBeLookedUpLetsNobodyIn() throws {
        let lost: (Path) -> Bool = { $0 == "rooms/r/owner" }
        #expect(try judge("data.child('owner').exists()", isLost: lost).allowed == nil)
        #expect(try judge("!data.child('owner').exists()", isLost: lost).allowed == nil)
        // It may be a term that fails, and the whole with it.
        #expect(try judge("data.child('owner').exists() && auth.uid == 'v'", isLost: lost).allowed == nil)
        #expect(try judge("data.child('owner').val().length > 3 || auth.uid == 'u'", isLost: lost).allowed == nil)
        #expect(try judge("data.child('owner').val().length > 3 || auth.uid == 'u'").allowed == true)
        #expect(try judge("data.child('open').val().length > 3 || auth.uid == 'u'").allowed == false)
    }
}
