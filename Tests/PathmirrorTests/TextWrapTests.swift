import Testing

@testable import pathmirror

/// Checks that prose continues in its own column, within the terminal's width, and stays whole without a terminal.
@Suite struct TextWrapTests {
    private static let text = "a gateway with these settings takes up to 21, 漢字 besides one for each mirror"

    @Test(arguments: [30, 40, 60, 79]) func linesFit(_ width: Int) {
        let wrapped = TextWrap.wrapped(Self.text, to: width, indent: 9, used: 9)
        let lines = wrapped.split(separator: "\n").map(String.init)
        #expect(TextWidth.of(lines[0]) <= width - 9)
        #expect(lines.dropFirst().allSatisfy { TextWidth.of($0) <= width && $0.hasPrefix("         ") })
        #expect(lines.map { $0.drop { $0 == " " } }.joined(separator: " ") == Self.text)
    }

    @Test func whereThereIsNoTerminalNothingIsBroken() {
        #expect(TextWrap.wrapped(Self.text, to: nil, indent: 9) == Self.text)
        #expect(TextWrap.help(Self.text, to: nil) == Self.text)
        // Nor if each line would be one word.
        #expect(TextWrap.wrapped(Self.text, to: 20, indent: 9) == Self.text)
    }

    @Test func aWordThatDoesNotFitHasALineOfItsOwn() {
        let long = String(repeating: "x", count: 50)
        #expect(TextWrap.wrapped("see \(long) there", to: 20) == "see\n\(long)\nthere")
    }

    @Test func helpContinuesInItsColumn() {
        let help = "usage: x\n\n  --ns NAME    the namespace; default the first one\n  --json       for programs\n"
        #expect(
            TextWrap.help(help, to: 37)
                == "usage: x\n\n  --ns NAME    the namespace; default\n               the first one\n  --json       for programs\n"
        )
        // Too narrow for two columns.
        #expect(
            TextWrap.help("  --ns NAME    the namespace; default the first", to: 24)
                == "  --ns NAME    the\n      namespace; default\n      the first")
    }

    @Test(arguments: CommandHelp.tree.specifications.map(\.name)) func everyHelpFits(_ name: String) throws {
        let help = try #require(CommandHelp.tree.specifications.first { $0.name == name }).help
        for width in [40, 80] {
            let lines = TextWrap.help(help, to: width).split(separator: "\n")
            // A single word may be wider.
            #expect(lines.allSatisfy { TextWidth.of(String($0)) <= width || $0.split(separator: " ").count <= 3 })
        }
    }
}
