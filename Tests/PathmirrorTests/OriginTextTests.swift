import Testing
import Tree

@testable import pathmirror

/// Checks that the author of an entry is shown in words, on one line, for every user name.
@Suite struct OriginTextTests {
    @Test(arguments: [
        ("ada", "ada by ws"), ("ada\n99  \u{1B}[2J\u{202E}x", "ada 99   [2J x by ws"), ("漢字", "漢字 by ws"),
        ("a\u{2028}b\u{9B}1m", "a b 1m by ws"),
    ]) func users(_ uid: String, _ said: String) {
        #expect(OriginText.author(Origin(uid: uid, isAdmin: false, via: .ws, address: nil)) == said)
    }

    @Test func others() {
        #expect(OriginText.author(nil) == "unknown")
        #expect(OriginText.author(Origin(uid: nil, isAdmin: true, via: .cli, address: nil)) == "administrator by cli")
        #expect(
            OriginText.author(Origin(uid: nil, isAdmin: false, via: .rest, address: "::1"))
                == "anonymous by rest from ::1")
    }
}
