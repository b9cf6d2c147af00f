import Glibc
import Testing

@testable import pathmirror

/// Checks that every kind of file is read completely, or rejected with its name.
@Suite struct FileTests {
    @Test(arguments: [0, 1, 255, 4_096, 262_143, 262_144, 262_145, 1_000_000]) func contents(_ count: Int) throws {
        let folder = try ScratchFolder()
        let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        let path = try folder.file("f", bytes)
        #expect(try Files.read(path) == bytes)
        let reader = try FileReader(path)
        #expect(reader.byteCount == count)
        var read: [UInt8] = []
        while let piece = try reader.next(upTo: 1_000) {
            #expect(!piece.isEmpty && piece.count <= 1_000)
            read += piece
            #expect(reader.bytesRead == read.count)
        }
        #expect(read == bytes)
        #expect(try reader.next() == nil)
    }

    @Test func limits() throws {
        let folder = try ScratchFolder()
        let path = try folder.file("f", [UInt8](repeating: 1, count: 100))
        #expect(try Files.read(path, maxBytes: 100).count == 100)
        let error = #expect(throws: CommandFailure.self) { try Files.read(path, maxBytes: 99) }
        #expect(error?.description == "\(path) is larger than 99 bytes.")
    }

    @Test func standardInput() throws {
        let input = try ScratchFile(Array("from there".utf8))
        #expect(try Files.read("-", standardInput: input.descriptor) == Array("from there".utf8))
        let reader = try FileReader("-", standardInput: input.descriptor)
        #expect(reader.byteCount == nil)
        // The descriptor belongs to the caller and is not closed with the reader.
        withExtendedLifetime(reader) {}
        #expect(fcntl(input.descriptor, F_GETFD) >= 0)
    }

    @Test(arguments: [
        ("none", "No such file or directory"), ("file/below", "Not a directory"), ("", "Is a directory"),
    ]) func whatCannotBeRead(_ name: String, _ reason: String) throws {
        let folder = try ScratchFolder()
        try folder.file("file", "text")
        let path = folder.path + "/" + name
        let error = #expect(throws: CommandFailure.self) { try Files.read(path) }
        #expect(error?.description == "\(path) can't be read: \(reason).")
    }

    @Test func linksAndDevices() throws {
        let folder = try ScratchFolder()
        let path = try folder.file("f", "text")
        symlink(path, folder.path + "/link")
        #expect(try Files.read(folder.path + "/link") == Array("text".utf8))
        #expect(try FileReader("/dev/null").byteCount == nil)
        #expect(try Files.read("/dev/null").isEmpty)
        symlink("nowhere", folder.path + "/broken")
        #expect(throws: CommandFailure.self) { try Files.read(folder.path + "/broken") }
    }

    @Test func descriptorsAreGivenBack() throws {
        let folder = try ScratchFolder()
        let path = try folder.file("f", "text")
        // More than a process may have open at once.
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        for _ in 0..<min(Int(limit.rlim_cur) + 10, 5_000) { _ = try FileReader(path) }
        #expect(try Files.read(path).count == 4)
    }
}

/// Checks that lines do not depend on how the file is cut into pieces.
@Suite struct LineReaderTests {
    @Test(arguments: [
        ("", []), ("\n", []), ("\n\n\n", []),
        ("a", ["1 0 false a"]), ("a\n", ["1 2 true a"]), ("a\nb", ["1 2 true a", "2 2 false b"]),
        // Empty lines are left out, but counted.
        ("a\n\nb\n", ["1 2 true a", "3 5 true b"]), ("\n\na\n", ["3 4 true a"]), ("a\r\n", ["1 3 true a\r"]),
        ("ü\n😀\n", ["1 3 true ü", "2 8 true 😀"]),
    ]) func lines(_ text: String, _ expected: [String]) throws {
        let input = try ScratchFile(Array(text.utf8))
        var reader = LineReader(try FileReader("-", standardInput: input.descriptor))
        var found: [String] = []
        while let (line, isWhole) = try reader.next() {
            found.append("\(reader.number) \(reader.offset) \(isWhole) \(String(decoding: line, as: UTF8.self))")
        }
        #expect(found == expected)
        #expect(try reader.next() == nil)
    }

    /// Longer than one piece of input, with ends at and around its borders.
    @Test(arguments: [262_142, 262_143, 262_144, 262_145, 600_000]) func longLines(_ length: Int) throws {
        let first = [UInt8](repeating: 0x61, count: length)
        let second = [UInt8](repeating: 0x62, count: length)
        let input = try ScratchFile(first + [0x0A] + second + [0x0A])
        var reader = LineReader(try FileReader("-", standardInput: input.descriptor))
        #expect(try reader.next()?.text == first)
        #expect(reader.offset == length + 1)
        #expect(try reader.next()?.text == second)
        #expect(reader.offset == 2 * (length + 1))
        #expect(try reader.next() == nil)
    }

    @Test func manyLines() throws {
        let input = try ScratchFile(Array((0..<100_000).map { "line \($0)\n" }.joined().utf8))
        var reader = LineReader(try FileReader("-", standardInput: input.descriptor))
        var number = 0
        while let (line, isWhole) = try reader.next() {
            guard isWhole, line == Array("line \(number)".utf8) else {
                Issue.record("line \(number) is \(String(decoding: line, as: UTF8.self))")
                return
            }
            number += 1
        }
        #expect(number == 100_000)
    }
}

/// Checks that a file appears complete under its name, or not at all.
@Suite struct OutputFileTests {
    @Test func itTakesItsNameAtTheEnd() throws {
        let folder = try ScratchFolder()
        let path = folder.path + "/out"
        let file = try OutputFile(path, standardOutput: -1)
        try file.write(Array("one ".utf8))
        #expect(!folder.exists("out"))
        #expect(folder.names == ["out.\(getpid()).part"])
        try file.write(Array("two".utf8))
        try file.finish()
        #expect(try folder.read("out") == "one two")
        #expect(folder.names == ["out"])
    }

    @Test func whatWasThereStaysUntilThen() throws {
        let folder = try ScratchFolder()
        try folder.file("out", "old")
        do {
            let file = try OutputFile(folder.path + "/out", standardOutput: -1)
            try file.write(Array("new".utf8))
            #expect(try folder.read("out") == "old")
        }
        // It was never finished, so no file remains.
        #expect(folder.names == ["out"])
        #expect(try folder.read("out") == "old")
        let file = try OutputFile(folder.path + "/out", standardOutput: -1)
        try file.finish()
        #expect(try folder.read("out").isEmpty)
    }

    @Test func anEmptyOne() throws {
        let folder = try ScratchFolder()
        try OutputFile(folder.path + "/out", standardOutput: -1).finish()
        #expect(try folder.read("out").isEmpty)
    }

    @Test func standardOutput() throws {
        let output = try ScratchFile()
        do {
            let file = try OutputFile(nil, standardOutput: output.descriptor)
            try file.write(Array("text".utf8))
            try file.finish()
        }
        #expect(output.text == "text")
        #expect(fcntl(output.descriptor, F_GETFD) >= 0)
        let error = #expect(throws: CommandFailure.self) { try OutputFile(nil, standardOutput: -1).write([1]) }
        #expect(error?.description == "standard output can't be written: Bad file descriptor.")
    }

    @Test func aFolderThatIsNotThere() throws {
        let folder = try ScratchFolder()
        let path = folder.path + "/none/out"
        let error = #expect(throws: CommandFailure.self) { try OutputFile(path, standardOutput: -1) }
        #expect(error?.description == "\(path) can't be written: No such file or directory.")
    }

    @Test func aNameThatIsTaken() throws {
        let folder = try ScratchFolder()
        try #require(mkdir(folder.path + "/out", 0o700) == 0)
        try folder.file("out/inside", "text")
        let file = try OutputFile(folder.path + "/out", standardOutput: -1)
        let error = #expect(throws: CommandFailure.self) { try file.finish() }
        #expect(error?.description.contains("can't be written") == true)
        #expect(try folder.read("out/inside") == "text")
    }

    // MARK: Writing

    /// Replacing a device would break it for all its users.
    @Test func devicesStayDevices() throws {
        let output = try OutputFile("/dev/null", standardOutput: 1)
        try output.write([1])
        try output.finish()
        let entries = try EntryFile("/dev/null", from: 1, source: "s", standardOutput: 1)
        try entries.write([1])
        #expect(try entries.keep() == nil)
        try entries.finish()
        var status = stat()
        #expect(stat("/dev/null", &status) == 0 && status.st_mode & S_IFMT == S_IFCHR)
        let full = try OutputFile("/dev/full", standardOutput: 1)
        let error = #expect(throws: CommandFailure.self) { try full.write([1]) }
        #expect(error?.description == "/dev/full can't be written: No space left on device.")
    }

    @Test func aLinkStaysAndItsFileIsReplaced() throws {
        let folder = try ScratchFolder()
        let file = try folder.file("real", "old", mode: 0o640)
        symlink("real", folder.path + "/link")
        let output = try OutputFile(folder.path + "/link", standardOutput: 1)
        try output.write(Array("new".utf8))
        #expect(try folder.read("real") == "old")
        try output.finish()
        #expect(try folder.read("real") == "new" && folder.names == ["link", "real"])
        var status = stat()
        #expect(lstat(folder.path + "/link", &status) == 0 && status.st_mode & S_IFMT == S_IFLNK)
        // The new file has the old mode.
        #expect(stat(file, &status) == 0 && status.st_mode & 0o777 == 0o640)
        let entries = try EntryFile(folder.path + "/link", from: 1, source: "s", standardOutput: 1)
        try entries.write(Array("entries".utf8))
        try entries.finish()
        #expect(try folder.read("real") == "entries" && folder.names == ["link", "real"])
        #expect(stat(file, &status) == 0 && status.st_mode & 0o777 == 0o640)
    }

    @Test func aPipeIsWrittenTo() throws {
        let folder = try ScratchFolder()
        let path = folder.path + "/pipe"
        try #require(mkfifo(path, 0o600) == 0)
        // Open for reading and writing, so that no side waits for the other.
        let end = open(path, O_RDWR | O_CLOEXEC)
        defer { close(end) }
        let output = try OutputFile(path, standardOutput: 1)
        try output.write([7])
        try output.finish()
        var byte: UInt8 = 0
        #expect(read(end, &byte, 1) == 1 && byte == 7 && folder.names == ["pipe"])
    }
}
