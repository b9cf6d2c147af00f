import Glibc

/// Small files of a test.
enum TestFile {
    struct Failure: Error {}

    static func makeFolder(_ path: String) throws {
        guard mkdir(path, 0o700) == 0 else { throw Failure() }
    }

    static func write(_ text: String, to path: String) throws {
        guard let file = fopen(path, "w") else { throw Failure() }
        defer { fclose(file) }
        guard fputs(text, file) >= 0 else { throw Failure() }
    }
}
