import Testing

@testable import pathmirror

/// Checks numbers with their nouns.
@Suite struct CountedTests {
    @Test(arguments: [
        (0, "entry", "0 entries"), (1, "entry", "1 entry"), (2, "key", "2 keys"), (2, "record", "2 records"),
        (1, "leaf", "1 leaf"), (3, "leaf", "3 leaves"),
    ]) func nouns(_ number: Int, _ noun: String, _ text: String) {
        #expect(Counted.text(number, noun) == text)
    }

    @Test(arguments: [
        (1, "entries read", "1 entry read"), (2, "entries read", "2 entries read"), (1, "leaves", "1 leaf"),
        (1, "rows compared", "1 row compared"),
    ]) func things(_ number: Int64, _ things: String, _ text: String) {
        #expect(Counted.text(number, of: things) == text)
    }

    @Test func withWhatWasDone() {
        #expect(Counted.text(1, "record", "was", "were") == "1 record was")
        #expect(Counted.text(0, "record", "was", "were") == "0 records were")
    }

    @Test(arguments: [
        (0.25, "250 ms"), (3.9, "3 s"), (125, "2 min"), (7_300, "2 h"), (200_000, "2 d"), (-1, "0 ms"),
    ]) func lags(_ seconds: Double, _ text: String) {
        #expect(LagText.text(seconds: seconds) == text)
    }
}

/// Checks that rows written as they arrive are aligned, with titles before the first row on a terminal.
@Suite struct StreamedTableTests {
    private static let columns: [StreamedTable.Column] = [
        .init("SEQ", 4, isNumber: true), .init("BY", 5), .init("PATH"),
    ]

    @Test func onATerminal() {
        var table = StreamedTable(Self.columns, width: 16)
        #expect(
            table.lines(["7", "ada", "/a"])
                == [" SEQ  BY     PATH", "   7  ada    /a"].map { TextWidth.fitted($0, to: 16) })
        #expect(table.lines(["12345", "somebody", "/a/b/c"]) == ["12345  some…  /…"])
    }

    /// A cell that is shown whole shifts the following cells of its row only.
    @Test func wholeCells() {
        var table = StreamedTable([.init("PATH", 6, isWhole: true), .init("CHANGES")], width: 20)
        #expect(table.lines(["/a", "x"]) == ["PATH    CHANGES", "/a      x"])
        #expect(table.lines(["/a/b/c/d", "x"]) == ["/a/b/c/d  x"])
    }

    @Test func elsewhere() {
        var table = StreamedTable(Self.columns, width: nil)
        #expect(table.lines(["7", "somebody", "/a"]) == ["7  somebody  /a"])
    }
}
