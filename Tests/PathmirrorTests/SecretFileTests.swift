import Glibc
import Runtime
import TestSupport
import Testing

@testable import pathmirror

/// Checks that files of secrets that others can read are reported or rejected, with the fix.
@Suite struct SecretFileTests {
    private static func parsed(_ arguments: [String], _ environment: [String: String] = [:]) throws -> ParsedArguments {
        try ParsedArguments(
            arguments, CommandSpecification("serve", "", options: AuthenticationOptions.options),
            Environment(values: environment))
    }

    @Test(arguments: [0o600, 0o400, 0o700, 0o711, 0o601, 0o610, 0o1600] as [mode_t])
    func closedToOthers(_ mode: mode_t) throws {
        let folder = try ScratchFolder()
        let path = try folder.file("secret", "text", mode: mode)
        for arguments in [[], ["--strict-secrets"]] {
            #expect(try SecretFile(Self.parsed(arguments)).check(path) == nil)
        }
    }

    @Test(
        arguments: [
            (0o640, "0640"), (0o604, "0604"), (0o620, "0620"), (0o602, "0602"), (0o666, "0666"), (0o777, "0777"),
        ]
            as [(mode_t, String)])
    func openToOthers(_ mode: mode_t, _ text: String) throws {
        let folder = try ScratchFolder()
        let path = try folder.file("secret", "text", mode: mode)
        let warning = try #require(try SecretFile(Self.parsed([])).check(path))
        #expect(warning == SecretFile.Warning(file: path, mode: text, fix: "chmod 600 \(path)"))
        let error = #expect(throws: CommandFailure.self) {
            try SecretFile(Self.parsed(["--strict-secrets"])).check(path)
        }
        #expect(
            error?.description
                == "\(path) contains secrets, and other users can read or change it (mode \(text)), which --strict-secrets forbids. Change the mode: chmod 600 \(path)."
        )
        // The suggested fix is sufficient.
        chmod(path, 0o600)
        #expect(try SecretFile(Self.parsed(["--strict-secrets"])).check(path) == nil)
    }

    @Test func strictnessByTheEnvironment() throws {
        let folder = try ScratchFolder()
        let path = try folder.file("secret", "text", mode: 0o644)
        let file = SecretFile(try Self.parsed([], ["PATHMIRROR_STRICT_SECRETS": "yes"]))
        #expect(throws: CommandFailure.self) { try file.check(path) }
    }

    /// A link's own mode has no meaning; the mode of the file counts.
    @Test func linksAreFollowed() throws {
        let folder = try ScratchFolder()
        let path = try folder.file("secret", "text", mode: 0o644)
        symlink("secret", folder.path + "/link")
        let file = SecretFile(try Self.parsed([]))
        #expect(try file.check(folder.path + "/link")?.mode == "0644")
        chmod(path, 0o600)
        #expect(try file.check(folder.path + "/link") == nil)
    }

    /// Other errors are reported by reading the file.
    @Test func whatIsNoFile() throws {
        let folder = try ScratchFolder()
        let file = SecretFile(try Self.parsed(["--strict-secrets"]))
        for name in ["none", "broken", "."] {
            if name == "broken" { symlink("nowhere", folder.path + "/broken") }
            #expect(try file.check(folder.path + "/" + name) == nil)
        }
        mkfifo(folder.path + "/pipe", 0o666)
        #expect(try file.check(folder.path + "/pipe") == nil)
    }

    /// systemd restricts credentials to one service by access lists; the mode shows more access than there is.
    @Test func whatSystemdShowsToTheServiceAlone() throws {
        let folder = try ScratchFolder()
        let path = try folder.file("secret", "text", mode: 0o640)
        let environment = ["CREDENTIALS_DIRECTORY": folder.path]
        #expect(try SecretFile(Self.parsed(["--strict-secrets"], environment)).check(path) == nil)
        // Only files in that folder count, not those in a folder whose name begins with it.
        let beside = try ScratchFolder()
        let other = try beside.file("secret", "text", mode: 0o640)
        #expect(try SecretFile(Self.parsed([], environment)).check(other) != nil)
        #expect(
            try SecretFile(Self.parsed([], ["CREDENTIALS_DIRECTORY": folder.path.dropLast().description])).check(path)
                != nil)
        #expect(try SecretFile(Self.parsed([], ["CREDENTIALS_DIRECTORY": ""])).check(path) != nil)
    }

    @Test(.enabled(if: geteuid() == 0, "needs root, to give a file away"))
    func whoseItIs() throws {
        let folder = try ScratchFolder()
        let path = try folder.file("secret", "text", mode: 0o644)
        chown(path, 4_711, 4_711)
        // Root can change the mode of every user's file.
        #expect(try SecretFile(Self.parsed([])).check(path)?.fix == "chmod 600 \(path)")
    }

    @Test func warningsAreLogged() throws {
        let log = try ScratchFile()
        SecretFile.Warning(file: "/a b", mode: "0644", fix: "chmod 600 '/a b'").log(
            Logger(format: .json, descriptor: log.descriptor))
        let line = try JSONText(reading: log.text)
        #expect(line["level"] == "warning")
        #expect(line["file"] == "/a b")
        #expect(line["mode"] == "0644")
        #expect(line["fix"] == "chmod 600 '/a b'")
    }
}

extension SecretFile.Warning: Equatable {
    static func == (left: Self, right: Self) -> Bool {
        left.file == right.file && left.mode == right.mode && left.fix == right.fix
    }
}

/// Checks that secrets are read unchanged, and that short ones, empty files and other formats are rejected with the file's name.
@Suite struct SecretFilesTests {
    private static let long = String(repeating: "s", count: 32)
    private static let administrator = String(repeating: "a", count: 16)

    private static func files(_ arguments: [String]) throws -> SecretFiles {
        try SecretFiles(
            ParsedArguments(
                arguments, CommandSpecification("serve", "", options: AuthenticationOptions.options),
                Environment(values: [:])))
    }

    private static func texts(_ secrets: [Secret<[UInt8]>]?) -> [String]? {
        secrets?.map { String(decoding: $0.revealed(), as: UTF8.self) }
    }

    @Test func nothingGivenIsNothing() throws {
        let files = try Self.files([])
        #expect(files.all.isEmpty)
        let secrets = try files.load()
        #expect(secrets.administrators.isEmpty && secrets.databases.isEmpty && secrets.warnings.isEmpty)
    }

    @Test(arguments: [
        ("\(administrator)", [administrator]), ("\(administrator)\n", [administrator]),
        ("\(administrator)\r\n\(long)\r\n", [administrator, long]), ("\n\n\(administrator)\n\n", [administrator]),
        // A space is part of a secret.
        (" \(administrator) ", [" \(administrator) "]), ("ünïcødé-sécrét", ["ünïcødé-sécrét"]),
    ]) func lines(_ text: String, _ expected: [String]) throws {
        let folder = try ScratchFolder()
        let path = try folder.file("secret", text)
        let secrets = try Self.files(["--admin-secret-file", path]).load()
        #expect(Self.texts(secrets.administrators) == expected)
        #expect(secrets.databases.isEmpty)
    }

    @Test(arguments: ["", "\n", "\r\n\r\n"]) func emptyFiles(_ text: String) throws {
        let folder = try ScratchFolder()
        let path = try folder.file("secret", text)
        for arguments in [["--admin-secret-file", path], ["--database-secret-file", "a=\(path)"]] {
            let error = #expect(throws: CommandFailure.self) { try Self.files(arguments).load() }
            #expect(error?.description == "\(path) contains no secret.")
        }
    }

    /// A short secret could be guessed.
    @Test func shortSecrets() throws {
        let folder = try ScratchFolder()
        let path = try folder.file("secret", "\(Self.long)\n\(Self.administrator.dropLast())\n")
        let error = #expect(throws: CommandFailure.self) { try Self.files(["--admin-secret-file", path]).load() }
        #expect(
            error?.description
                == "A secret in \(path) is too short: it must have at least 16 bytes, so that it can't be guessed.")
        // A namespace's secret signs tokens, so it must be longer.
        let short = try folder.file("short", String(Self.long.dropLast()))
        let other = #expect(throws: CommandFailure.self) {
            try Self.files(["--database-secret-file", "a=\(short)"]).load()
        }
        #expect(other?.description.contains("at least 32 bytes") == true)
        // The error must not contain the secret.
        #expect(error?.description.contains(Self.administrator.dropLast()) == false)
    }

    @Test func namespaces() throws {
        let folder = try ScratchFolder()
        let first = try folder.file("first", Self.long + "1\n" + Self.long + "2")
        let second = try folder.file("second", Self.long + "3")
        let files = try Self.files([
            "--database-secret-file", "a=\(first),b=\(second)", "--database-secret-file", "a=\(second)",
        ])
        #expect(files.all == [first, second, second])
        let secrets = try files.load()
        #expect(Self.texts(secrets.databases["a"]) == [Self.long + "1", Self.long + "2", Self.long + "3"])
        #expect(Self.texts(secrets.databases["b"]) == [Self.long + "3"])
        #expect(secrets.administrators.isEmpty)
    }

    @Test(arguments: ["=x", "a=x,=b", "="]) func namespacesWithoutAName(_ text: String) {
        let error = #expect(throws: UsageError.self) { try Self.files(["--database-secret-file", text]) }
        #expect(
            error?.message
                == "--database-secret-file must be NAMESPACE=FILE, a JSON file of many namespaces, or several of these with commas."
        )
    }

    /// A file given without a namespace contains the secrets of many namespaces.
    @Test func severalTables() throws {
        let folder = try ScratchFolder()
        let first = try folder.file("first", "{\"a\": \"\(Self.long)1\"}")
        let second = try folder.file("second", "{\"a\": \"\(Self.long)2\", \"b\": \"\(Self.long)3\"}")
        let files = try Self.files(["--database-secret-file", first, "--database-secret-file", second])
        #expect(files.all == [first, second])
        // A name with a slash is no namespace's name.
        #expect(try Self.files(["--database-secret-file", "/run/a=b.json"]).all == ["/run/a=b.json"])
        let secrets = try files.load()
        #expect(Self.texts(secrets.databases["a"]) == [Self.long + "1", Self.long + "2"])
        #expect(Self.texts(secrets.databases["b"]) == [Self.long + "3"])
    }

    @Test func tables() throws {
        let folder = try ScratchFolder()
        let long = Self.long
        let table = try folder.file("table", "{\"a\": \"\(long)\", \"b\": [\"\(long)1\", \"\(long)2\"], \"c\": []}")
        let extra = try folder.file("extra", long + "3")
        let secrets = try Self.files(["--database-secret-file", "\(table),b=\(extra)"]).load()
        #expect(Self.texts(secrets.databases["a"]) == [long])
        #expect(Self.texts(secrets.databases["b"]) == [long + "1", long + "2", long + "3"])
        #expect(secrets.databases["c"]?.isEmpty == true)
    }

    @Test(arguments: [
        "", "[]", "{", "\"x\"", "{\"a\": 1}", "{\"a\": null}", "{\"a\": {}}", "{\"a\": [1]}", "{\"a\": [[]]}",
        "{\"a\": \"x\", \"a\": \"x\"}", "{} x",
    ]) func tablesThatAreNone(_ text: String) throws {
        let folder = try ScratchFolder()
        let table = try folder.file("table", text)
        let error = #expect(throws: CommandFailure.self) { try Self.files(["--database-secret-file", table]).load() }
        #expect(
            error?.description
                == "\(table) must be a JSON object: namespace to secret, or to a list of secrets.")
    }

    @Test func aFileThatIsNotThereOrTooLarge() throws {
        let folder = try ScratchFolder()
        for arguments in [
            ["--admin-secret-file", folder.path + "/none"], ["--database-secret-file", "a=\(folder.path)/none"],
        ] {
            let error = #expect(throws: CommandFailure.self) { try Self.files(arguments).load() }
            #expect(error?.description == "\(folder.path)/none can't be read: No such file or directory.")
        }
        let large = try folder.file("large", String(repeating: Self.long + "\n", count: 2_000))
        let error = #expect(throws: CommandFailure.self) { try Self.files(["--admin-secret-file", large]).load() }
        #expect(error?.description == "\(large) is larger than 65536 bytes.")
    }

    @Test func warningsOfAll() throws {
        let folder = try ScratchFolder()
        let open = try folder.file("open", Self.long, mode: 0o644)
        let closed = try folder.file("closed", Self.long)
        let secrets = try Self.files(["--admin-secret-file", open, "--database-secret-file", "a=\(closed),b=\(open)"])
            .load()
        #expect(secrets.warnings.map(\.file) == [open, open])
        #expect(throws: CommandFailure.self) {
            try Self.files(["--admin-secret-file", open, "--strict-secrets"]).load()
        }
    }

    @Test func secretsAreNotShown() throws {
        let folder = try ScratchFolder()
        let path = try folder.file("secret", Self.long)
        let secrets = try Self.files(["--admin-secret-file", path, "--database-secret-file", "a=\(path)"]).load()
        var shown = "\(secrets)"
        dump(secrets, to: &shown)
        #expect(!shown.contains(Self.long))
    }

    /// Checks that a file's stamp changes with each kind of change.
    @Test func stamps() throws {
        let folder = try ScratchFolder()
        let path = try folder.file("secret", Self.long)
        let files = try Self.files(["--admin-secret-file", path, "--database-secret-file", "a=\(folder.path)/none"])
        var seen = [files.stamp]
        #expect(files.stamp == seen[0])
        #expect(seen[0].count == 2 && seen[0][1] == "none")
        try folder.file("secret", Self.long + "x")
        seen.append(files.stamp)
        chmod(path, 0o640)
        seen.append(files.stamp)
        try folder.file("new", Self.long)
        rename(folder.path + "/new", path)
        seen.append(files.stamp)
        unlink(path)
        seen.append(files.stamp)
        try folder.file("none", Self.long)
        seen.append(files.stamp)
        #expect(Set(seen).count == seen.count)
    }
}

/// Checks that files of secrets are read again after a change or on request, and that invalid ones change nothing.
@Suite struct SecretWatchTests {
    private static let long = String(repeating: "s", count: 32)

    private final class Received: Sendable {
        let texts = Condition<[[String]]>([])
        let log: ScratchFile
        init() throws { log = try ScratchFile() }

        func watch(_ files: SecretFiles) -> SecretWatch {
            SecretWatch(files, Logger(descriptor: log.descriptor)) { secrets in
                let texts = secrets.administrators.map { String(decoding: $0.revealed(), as: UTF8.self) }
                self.texts.broadcast { $0.append(texts) }
            }
        }
        func waitFor(_ expected: [String]) -> Bool {
            texts.wait(milliseconds: 20_000) { $0.last == expected ? true : nil } ?? false
        }
    }

    private static func files(_ path: String) throws -> SecretFiles {
        try SecretFiles(
            ParsedArguments(
                ["--admin-secret-file", path],
                CommandSpecification("serve", "", options: AuthenticationOptions.options),
                Environment(values: [:])))
    }

    @Test func aChangedFileIsRead() throws {
        let folder = try ScratchFolder()
        let path = try folder.file("secret", Self.long + "1")
        let received = try Received()
        let watch = received.watch(try Self.files(path))
        defer { watch.stop() }
        try folder.file("secret", Self.long + "2\n" + Self.long + "3")
        #expect(received.waitFor([Self.long + "2", Self.long + "3"]))
        #expect(eventually { received.log.text.contains("notice secrets read files=\(path)") })
        // The way in which editors and secret stores replace files.
        try folder.file("new", Self.long + "4")
        rename(folder.path + "/new", path)
        #expect(received.waitFor([Self.long + "4"]))
    }

    @Test func whatIsAskedForIsReadUnchanged() throws {
        let folder = try ScratchFolder()
        let path = try folder.file("secret", Self.long)
        let received = try Received()
        let watch = received.watch(try Self.files(path))
        defer { watch.stop() }
        watch.reload()
        #expect(received.waitFor([Self.long]))
    }

    @Test func aBadFileChangesNothingAndAGoodOneIsTakenAgain() throws {
        let folder = try ScratchFolder()
        let path = try folder.file("secret", Self.long)
        let received = try Received()
        let watch = received.watch(try Self.files(path))
        defer { watch.stop() }
        try folder.file("secret", "short")
        #expect(eventually { received.log.text.contains("the secrets can't be read; the previous ones stay in use") })
        #expect(received.texts.withLock { $0.isEmpty })
        unlink(path)
        #expect(eventually { received.log.text.contains("No such file or directory") })
        try folder.file("secret", Self.long + "2")
        #expect(received.waitFor([Self.long + "2"]))
        #expect(!received.log.text.contains(Self.long))
    }

    @Test func stopping() throws {
        let folder = try ScratchFolder()
        let path = try folder.file("secret", Self.long)
        let received = try Received()
        let watch = received.watch(try Self.files(path))
        watch.stop()
        // The thread has ended, so there are no more updates.
        watch.reload()
        #expect(received.texts.withLock { $0.isEmpty })
    }
}
