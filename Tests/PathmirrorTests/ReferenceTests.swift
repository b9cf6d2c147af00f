import Glibc
import Testing

@testable import pathmirror

/// Checks that completions and manual pages describe the actual commands. `e2e/test_command_line.py` runs the shells.
@Suite struct ReferenceTests {
    private static let tree = CommandTree(specifications: [
        CommandSpecification(
            "one two", "it's [one]: two", positionals: ["FILE", "[a|b]"],
            options: [
                .init("file", "FILE", "a \\ file"), .init("list", "A[,A…]", "a list"), .init("level", "low|high", "it"),
                .init("old", nil, "a switch"),
            ], notes: [".A note — that's all."]),
        CommandSpecification("one three", "three", options: []),
        CommandSpecification("four", "four", positionals: ["[COMMAND…]"], options: [.init("dir", "DIR", "a folder")]),
    ])

    @Test(arguments: [
        ("FILE", ValueKind.file), ("FILE|-", .file), ("[FILE]", .file), ("FILE…", .file), ("DIR", .folder),
        ("[COMMAND…]", .command), ("text|json", .words(["text", "json"])), ("SEQ|TIME", .free), ("30d|N", .free),
        ("NAME", .free),
        ("", .free), ("text", .free),
    ]) func kinds(_ placeholder: String, _ kind: ValueKind) {
        #expect(ValueKind(placeholder) == kind)
    }

    /// Completions know an option by its name: its value has the same kind in every command.
    @Test func anOptionsValueIsOfOneKind() {
        var kinds: [String: ValueKind] = [:]
        for option in Commands.all.flatMap({ $0.specification.options }) {
            guard let value = option.value else { continue }
            let known = kinds.updateValue(ValueKind(value), forKey: option.name)
            #expect(known == nil || known == ValueKind(value), "--\(option.name)")
        }
    }

    @Test func theTree() {
        #expect(Self.tree.words(after: "") == ["one", "four"])
        #expect(Self.tree.words(after: "one") == ["two", "three"])
        #expect(Self.tree.words(after: "four").isEmpty)
        #expect(Self.tree.groups == ["one"])
        #expect(Self.tree.summary(of: "one") == "two, three")
        #expect(Self.tree.command(["one", "two", "x"])?.name == "one two")
        #expect(Self.tree.command(["one"]) == nil)
        #expect(Self.tree.nearest(["one", "tow"]) == ["one two"])
        #expect(Self.tree.nearest(["three"]) == ["one three"])
        #expect(Self.tree.nearest(["nonsense"]).isEmpty)
    }

    @Test(arguments: [
        ("", "", 0), ("a", "", 1), ("abc", "abc", 0), ("abc", "acb", 1), ("abc", "ab", 1), ("abc", "axbc", 1),
        ("abc", "xyz", 3),
        ("ca", "abc", 3), ("stauts", "status", 1), ("ü", "u", 1),
    ]) func distances(_ left: String, _ right: String, _ expected: Int) {
        #expect(NearestWord.distance(Array(left), Array(right)) == expected)
        #expect(NearestWord.distance(Array(right), Array(left)) == expected)
    }

    @Test(arguments: [
        ("ls", ["ls"]), ("sl", ["ls"]), ("lss", ["ls"]), ("xy", []), ("", []), ("statsu", ["status"]),
        ("SHOW", ["show"]),
        ("stop", []), ("at", ["as", "it"]),
    ]) func nearest(_ word: String, _ expected: [String]) {
        #expect(NearestWord.all(word, among: ["ls", "status", "show", "as", "it"]) == expected)
    }

    @Test func bash() {
        let script = BashCompletion.script(Self.tree)
        #expect(script.contains("    'one') echo 'two three' ;;\n"))
        #expect(script.contains("    'one two') echo '--file --list --level --old --help' ;;\n"))
        #expect(script.contains("    --level) echo 'low high' ;;\n"))
        #expect(!script.contains("ancient"))
    }

    @Test func zsh() {
        let script = ZshCompletion.script(Self.tree)
        #expect(script.contains("'two:it'\\''s [one]\\: two'"))
        #expect(script.contains("'--file=[a \\\\ file]:FILE:_files'"))
        #expect(script.contains("'*--list=[a list]:A[,A…]: '"))
        #expect(script.contains("'2::[a|b]:(a b)'"))
    }

    @Test func fish() {
        let script = FishCompletion.script(Self.tree)
        #expect(script.contains("-a two -d 'it\\'s [one]: two'"))
        #expect(script.contains("-l file -r -F -d 'a \\\\ file'"))
    }

    @Test func pages() throws {
        let command = try #require(Self.tree.specifications.first)
        let page = ManualPage.page(command, version: "1.0")
        #expect(page.contains(".TH PATHMIRROR\\-ONE\\-TWO 1"))
        #expect(page.contains("\\&.A note \\[u2014] that\\(aqs all.\n"))
        #expect(page.contains(".BI \\-\\-file \" FILE\"\na \\e file\n"))
        #expect(ManualPage.overview(Self.tree, version: "1.0").contains(".BR pathmirror\\-one\\-two (1)\n"))
    }

    @Test func allPagesAreWrittenIntoAFolder() throws {
        let folder = try ScratchFolder()
        let path = folder.path + "/man1"
        #expect(try pathmirror(["man", "--folder", path]).exitCode == 0)
        #expect(try pathmirror(["man", "--folder", path]).exitCode == 0)
        #expect(access(path + "/pathmirror-log-ls.1", R_OK) == 0)
        #expect(try pathmirror(["man", "--folder", path, "log", "ls"]).exitCode == 2)
        #expect(try pathmirror(["man", "--folder", path + "/pathmirror.1"]).exitCode == 1)
        #expect(try pathmirror(["man", "log"]).errors.contains("there is no command \"log\""))
        #expect(try pathmirror(["completions", "tcsh"]).exitCode == 2)
    }
}
