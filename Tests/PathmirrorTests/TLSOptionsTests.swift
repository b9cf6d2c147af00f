import HTTPServer
import Runtime
import TLS
import TestSupport
import Testing

@testable import pathmirror

/// Checks that the options configure TLS, and that invalid ones are explained.
@Suite struct TLSOptionsTests {
    static func options(_ arguments: [String]) throws -> TLSOptions? {
        try TLSOptions(
            ParsedArguments(
                arguments, CommandSpecification("serve", "", options: TLSOptions.options + SecretFile.options),
                Environment(values: [:])))
    }

    static func pair(_ folder: ScratchFolder) throws -> [String] {
        [
            "--tls-certificate", try folder.file("certificate.pem", TestCertificates.rsaCertificate), "--tls-key",
            try folder.file("key.pem", TestCertificates.rsaKey),
        ]
    }

    @Test func noneWithoutItsOptions() throws {
        #expect(try Self.options([]) == nil)
        #expect(try Self.options(["--hsts-max-age", "5s"]) == nil)
        #expect(throws: UsageError.self) { try Self.options(["--hsts-max-age", "1y"]) }
    }

    @Test func whatIsGiven() throws {
        let folder = try ScratchFolder()
        let standard = try #require(try Self.options(Self.pair(folder)))
        #expect(standard.address.description == "127.0.0.1:9443")
        #expect(standard.strictTransportSeconds == nil)
        #expect(standard.warnings.isEmpty)
        #expect(standard.identity.certificateFile == folder.path + "/certificate.pem")
        #expect(standard.identity.keyFile == folder.path + "/key.pem")
        #expect(standard.identity.expiresAt > Clock.unixMilliseconds / 1_000)
        let more = try #require(
            try Self.options(Self.pair(folder) + ["--tls-listen", "[::1]:443", "--hsts-max-age", "0s"]))
        #expect(more.address.port == 443)
        #expect(more.strictTransportSeconds == 0)
    }

    @Test(arguments: [
        ["--tls-certificate", "/x"], ["--tls-key", "/x"], ["--tls-listen", "127.0.0.1:1"],
        ["--tls-certificate", "/x", "--tls-listen", "127.0.0.1:1"],
    ]) func halfSaid(_ arguments: [String]) {
        let error = #expect(throws: UsageError.self) { try Self.options(arguments) }
        #expect(error?.message == "TLS needs both --tls-certificate and --tls-key.")
    }

    @Test(arguments: ["-1s", "0", "60", "36501d", "x", ""]) func agesThatAreNone(_ text: String) throws {
        let folder = try ScratchFolder()
        let error = #expect(throws: UsageError.self) {
            try Self.options(Self.pair(folder) + ["--hsts-max-age", text])
        }
        #expect(error?.message == "--hsts-max-age must be a duration such as 15s or 10m, from 0s to 36500d.")
    }

    @Test func filesThatAreWrong() throws {
        let folder = try ScratchFolder()
        let certificate = try folder.file("certificate.pem", TestCertificates.rsaCertificate)
        let key = try folder.file("key.pem", TestCertificates.rsaKey)
        let other = try folder.file("other.pem", TestCertificates.otherKey)
        let text = try folder.file("text.pem", "no PEM")
        for (certificate, key) in [
            (certificate, other), (certificate, text), (text, key), (certificate, folder.path + "/none"),
            (folder.path + "/none", key), (key, certificate),
        ] {
            let error = #expect(throws: CommandFailure.self) {
                try Self.options(["--tls-certificate", certificate, "--tls-key", key])
            }
            #expect(error?.description.hasSuffix(".") == true)
            #expect(error?.description.contains("PRIVATE") == false)
        }
    }

    @Test func theKeyIsASecret() throws {
        let folder = try ScratchFolder()
        let arguments = [
            "--tls-certificate", try folder.file("certificate.pem", TestCertificates.rsaCertificate, mode: 0o644),
            "--tls-key",
            try folder.file("key.pem", TestCertificates.rsaKey, mode: 0o644),
        ]
        #expect(try Self.options(arguments)?.warnings.map(\.file) == [folder.path + "/key.pem"])
        #expect(throws: CommandFailure.self) { try Self.options(arguments + ["--strict-secrets"]) }
    }

    @Test(arguments: [
        ("127.0.0.1:9000", "127.0.0.1", 9_000), ("0.0.0.0:0", "0.0.0.0", 0), ("[::]:65535", "[::]", 65_535),
        ("localhost:80", "localhost", 80), ("[::1]:1", "[::1]", 1),
    ]) func listenAddresses(_ text: String, _ host: String, _ port: Int) throws {
        let address = try ListenOption.address(text, "listen")
        #expect(address == ListenAddress(host: host, port: UInt16(port)))
    }

    @Test(arguments: [
        "", ":", ":80", "80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "127.0.0.1:-1", "a:80 ",
    ])
    func listenAddressesThatAreNone(_ text: String) {
        let error = #expect(throws: UsageError.self) { try ListenOption.address(text, "tls-listen") }
        #expect(error?.message == "--tls-listen must be HOST:PORT, such as 0.0.0.0:9000 or [::]:9000.")
    }
}

/// Checks that a new certificate is loaded while the gateway runs, and that an invalid one changes nothing.
@Suite struct CertificateWatchTests {
    private func watch(_ folder: ScratchFolder, _ log: ScratchFile) throws -> (TLSOptions, CertificateWatch) {
        let tls = try #require(try TLSOptionsTests.options(TLSOptionsTests.pair(folder)))
        return (tls, CertificateWatch(tls, Logger(descriptor: log.descriptor)))
    }

    @Test func newFilesAreLoaded() throws {
        let (folder, log) = (try ScratchFolder(), try ScratchFile())
        let (tls, watch) = try watch(folder, log)
        defer { watch.stop() }
        let before = tls.identity.expiresAt
        // One after the other, as renewals write them: a pair that does not match changes nothing.
        try folder.file("certificate.pem", TestCertificates.expiredCertificate)
        watch.reload()
        #expect(eventually { log.text.contains("the new certificate can't be loaded; the previous one stays in use") })
        #expect(tls.identity.expiresAt == before)
        try folder.file("key.pem", TestCertificates.otherKey)
        watch.reload()
        #expect(eventually { log.text.contains("certificate loaded") })
        #expect(tls.identity.expiresAt == 1_580_515_200)
        #expect(eventually { log.text.contains("the certificate expires soon, or has") })
        #expect(!log.text.contains("PRIVATE"))
    }

    @Test func aChangeIsNoticedUnasked() throws {
        let (folder, log) = (try ScratchFolder(), try ScratchFile())
        let (tls, watch) = try watch(folder, log)
        defer { watch.stop() }
        try folder.file("key.pem", TestCertificates.otherKey)
        try folder.file("certificate.pem", TestCertificates.otherCertificate)
        #expect(eventually { log.text.contains("certificate loaded") })
        #expect(tls.identity.expiresAt > Clock.unixMilliseconds / 1_000)
        #expect(!log.text.contains("expires soon"))
    }

    @Test func aKeyThatIsOpenedToOthersIsReported() throws {
        let (folder, log) = (try ScratchFolder(), try ScratchFile())
        let (_, watch) = try watch(folder, log)
        defer { watch.stop() }
        try folder.file("key.pem", TestCertificates.rsaKey, mode: 0o644)
        watch.reload()
        #expect(eventually { log.text.contains("other users can read or change a file of secrets") })
    }
}
