import Testing
import Tree

/// Checks which keys may be stored (reference: rtdb-protocol 6.6).
struct KeyRulesTests {
    @Test(arguments: ["a", " ", "-", "é", "😀", "a:b", "a\"b", "a\\b", "\u{80}", "\u{FFFF}", "%2F", "*", "~", "{}"])
    func `a key is allowed`(text: String) {
        #expect(KeyRules.violation(in: Key(text)) == nil)
    }

    @Test func `every forbidden byte is found wherever it stands`() {
        for byte in [UInt8](0...0x1F) + [0x7F] + Array(".#$[]/".utf8) {
            let character = String(UnicodeScalar(byte))
            for text in [character, "ab" + character, character + "ab", "é" + character + "é"] {
                #expect(KeyRules.violation(in: Key(text)) == .forbidden(byte: byte))
            }
        }
    }

    @Test func `the limit counts bytes`() {
        #expect(KeyRules.violation(in: Key("")) == .empty)
        #expect(KeyRules.violation(in: Key(String(repeating: "k", count: 768))) == nil)
        #expect(KeyRules.violation(in: Key(String(repeating: "k", count: 769))) == .tooLong(bytes: 769))
        #expect(KeyRules.violation(in: Key(String(repeating: "é", count: 384))) == nil)
        #expect(KeyRules.violation(in: Key(String(repeating: "é", count: 385))) == .tooLong(bytes: 770))
    }

    @Test func `reasons complete a sentence`() {
        #expect(KeyRules.Violation.empty.reason == "is empty")
        #expect(KeyRules.Violation.tooLong(bytes: 769).reason == "has 769 bytes, more than 768")
        #expect(KeyRules.Violation.forbidden(byte: 0).reason == "contains a control character")
        #expect(KeyRules.Violation.forbidden(byte: 0x7F).reason == "contains a control character")
        #expect(KeyRules.Violation.forbidden(byte: 0x2E).reason == "contains \".\"")
    }
}
