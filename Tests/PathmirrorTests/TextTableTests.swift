import Testing

@testable import pathmirror

/// Checks that columns are aligned for all contents, and that lines are no wider than the terminal.
@Suite struct TextTableTests {
    @Test(arguments: [
        ("", 0), ("abc", 3), ("ü", 1), ("u\u{308}", 1), ("漢字", 4), ("한글", 4), ("\u{1112}\u{1161}\u{11ab}", 2), ("😀", 2),
        ("👩‍👩‍👧", 2), ("🇩🇪", 2),
        ("❤\u{FE0F}", 2), ("→", 1), ("…", 1), ("ｆｕｌｌ", 8), ("ﾊﾝｶｸ", 4), ("a\u{200B}b", 2), ("שלום", 4),
        ("e\u{301}\u{323}", 1),
    ]) func widths(_ text: String, _ width: Int) {
        #expect(TextWidth.of(text) == width)
    }

    @Test(arguments: [
        ("abc", 3, "abc"), ("abcd", 3, "ab…"), ("漢字", 4, "漢字"), ("漢字漢", 4, "漢…"), ("漢字", 3, "漢…"), ("abc", 1, "…"),
        ("abc", 0, ""),
        ("a\nb", 3, "a b"), ("a\tb\u{1B}[31m", 20, "a b [31m"), ("a\r\nb", 9, "a b"),
    ]) func cuts(_ text: String, _ width: Int, _ expected: String) {
        #expect(TextWidth.fitted(text, to: width) == expected)
        #expect(TextWidth.of(TextWidth.fitted(text, to: width)) <= width)
    }

    private static func table() -> TextTable {
        var table = TextTable(["NAME", "", "SIZE", "WHAT"], numbers: [2])
        table.add("a", "", "7", "short")
        table.add("漢字", "", "1234", "")
        table.add("ü\u{308}", "", "", "something that is rather long for a table")
        return table
    }

    @Test func columnsAlign() {
        #expect(
            Self.table().lines(width: nil) == [
                "a        7  short", "漢字  1234", "ü\u{308}           something that is rather long for a table",
            ])
    }

    @Test func onATerminalTheyHaveTitles() {
        let lines = Self.table().lines(width: 200)
        #expect(lines.first == "NAME  SIZE  WHAT")
        #expect(lines.count == 4)
    }

    @Test(arguments: [30, 40, 60]) func linesFit(_ width: Int) {
        let lines = Self.table().lines(width: width)
        #expect(lines.allSatisfy { TextWidth.of($0) <= width })
        #expect((lines.last?.hasSuffix("…") == true) == (width < 53))
        // Short cells stay whole.
        #expect(lines[1].hasPrefix("a        7  short"))
    }

    /// Columns have a least width; a narrower terminal shows the first columns.
    @Test(arguments: [1, 5, 12, 19]) func narrowerThanTheColumns(_ width: Int) {
        let lines = Self.table().lines(width: width)
        #expect(lines.count == 4)
        #expect(lines.allSatisfy { TextWidth.of($0) <= width })
        #expect(lines.last?.hasSuffix("…") == true)
    }

    @Test func nothingIsWrittenOfNothing() throws {
        let descriptors = try Descriptors()
        TextTable(["A"]).write(to: descriptors.console())
        #expect(descriptors.output.bytes.isEmpty)
    }
}
