import Glibc
import Testing

@testable import pathmirror

/// Checks that results and errors are written completely to their descriptors, and that only terminals are asked.
@Suite struct ConsoleTests {
    @Test func eachHasItsDescriptor() throws {
        let descriptors = try Descriptors()
        let console = descriptors.console()
        console.write("result")
        console.write("mistake", toError: true)
        console.error("another")
        #expect(console.writeBytes([0, 0xFF, 0x0A]))
        #expect(descriptors.output.bytes == Array("result\n".utf8) + [0, 0xFF, 0x0A])
        #expect(descriptors.errors.text == "mistake\nanother\n")
    }

    @Test func nothingIsLostOnTheWay() throws {
        let output = try ScratchFile()
        let bytes = (0..<1_000_000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        #expect(Console.writeBytes(bytes, to: output.descriptor))
        #expect(Console.writeBytes([], to: output.descriptor))
        #expect(output.bytes == bytes)
    }

    /// A pipe accepts little at once; the writer continues until all is written.
    @Test func aPipeThatIsReadSlowly() throws {
        var ends: [Int32] = [0, 0]
        try #require(pipe(&ends) == 0)
        let reader = ends[0]
        let bytes = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 13) }
        let result = Reading(reader)
        #expect(Console.writeBytes(bytes, to: ends[1]))
        close(ends[1])
        #expect(result.all() == bytes)
        close(reader)
    }

    @Test func whereNothingCanBeWritten() {
        #expect(!Console.writeBytes([1], to: -1))
        #expect(errno == EBADF)
        let full = open("/dev/full", O_WRONLY | O_CLOEXEC)
        defer { close(full) }
        #expect(!Console.writeBytes([1], to: full))
        #expect(errno == ENOSPC)
    }

    @Test func filesAreNoTerminals() throws {
        let descriptors = try Descriptors(input: Array("yes\n".utf8))
        #expect(!descriptors.console().isTerminal)
        // Without a terminal there was no confirmation.
        #expect(!descriptors.console().confirms("Really?"))
        #expect(descriptors.errors.text.isEmpty)
    }

    @Test(arguments: [
        ("y\n", true), ("Y\n", true), ("yes\n", true), ("Yeah\n", true), ("n\n", false), ("\n", false), ("no\n", false),
        (" y\n", false), ("ny\n", false), ("\u{4}", false), ("y\nn\n", true),
    ]) func answers(_ typed: String, _ isYes: Bool) throws {
        let terminal = try PseudoTerminal()
        let output = try ScratchFile()
        let console = Console(
            output: output.descriptor, errors: terminal.descriptor, input: terminal.descriptor,
            signals: ScriptedSignals())
        #expect(console.isTerminal)
        terminal.type(typed)
        #expect(console.confirms("Drop it?") == isYes)
        #expect(terminal.shown == "Drop it? [y/N] ")
        #expect(output.bytes.isEmpty)
    }

    /// A result or an error replaces the progress line, and the next progress line starts fresh.
    @Test func permanentTextReplacesTheLine() throws {
        let terminal = try PseudoTerminal()
        let console = Console(output: terminal.descriptor, errors: terminal.descriptor, input: terminal.descriptor)
        console.progressLine("half")
        console.write("result")
        console.error("mistake")
        console.progressLine("")
        #expect(terminal.shown == "\r\u{1B}[Khalf\r\u{1B}[Kresult\nmistake\n")
    }

    @Test(arguments: [
        ("20", "012345678901234567…"), ("1", "…"), ("0", "012345678901234567890"), ("x", "012345678901234567890"),
    ])
    func theLineFitsTheTerminal(_ columns: String, _ shown: String) throws {
        let terminal = try PseudoTerminal()
        let console = Console(
            output: terminal.descriptor, errors: terminal.descriptor, input: terminal.descriptor,
            environment: Environment(values: ["COLUMNS": columns]))
        console.progressLine("012345678901234567890")
        #expect(terminal.shown == "\r\u{1B}[K\(shown)")
    }

    @Test func aTerminalThatCannotReplaceLinesIsNone() throws {
        let terminal = try PseudoTerminal()
        let console = Console(
            output: terminal.descriptor, errors: terminal.descriptor, input: terminal.descriptor,
            environment: Environment(values: ["TERM": "dumb"]))
        #expect(!console.isTerminal)
    }

    /// Checks that a command fails if its results were lost.
    @Test func lostResultsAreAFailure() throws {
        let descriptors = try Descriptors()
        let full = open("/dev/full", O_WRONLY | O_CLOEXEC)
        defer { close(full) }
        for arguments in [["help"], ["version"], ["log", "ls", "--help"]] {
            let errors = try ScratchFile()
            let console = Console(
                output: full, errors: errors.descriptor, input: descriptors.input.descriptor, signals: ScriptedSignals()
            )
            #expect(Commands.run(arguments, console, Environment(values: [:])) == 1)
            #expect(errors.text == "pathmirror: standard output can't be written: No space left on device.\n")
        }
    }

    @Test func theProgressLineIsReplaced() throws {
        let descriptors = try Descriptors()
        descriptors.console().progressLine("half")
        descriptors.console().progressLine("whole")
        #expect(descriptors.errors.text == "\r\u{1B}[Khalf\r\u{1B}[Kwhole")
    }
}
