import Foundation
import Glibc
import Synchronization
import TestSupport
import Testing

@testable import PathmirrorClient

/// A real gateway with a PostgreSQL of its own, for as long as a suite runs.
final class TestGateway: Sendable {
    @TaskLocal static var current: TestGateway?

    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    let url: String
    /// The port for TLS; clients have to trust the certificate, which is for `localhost`.
    let securePort: Int
    let certificate: String
    /// The file of the secrets that sign tokens: those of `secrets`, one per line, until a test removes some.
    let secretFile: String
    static let secrets = ["the first of the tests' secrets, long", "the second of the tests' secrets, long"]
    var port: UInt16 { url.split(separator: ":").last.flatMap { UInt16($0) } ?? 0 }
    /// A shell that ends the gateway on request, or when the test program has ended.
    private let process: Process
    private let folder: String
    private let clients = Mutex<[Database]>([])

    /// The release build, or the program that `PATHMIRROR_BINARY` names; nil if it was not built.
    static var binary: String? {
        let named = ProcessInfo.processInfo.environment["PATHMIRROR_BINARY"]
        let path = named ?? FileManager.default.currentDirectoryPath + "/.build/release/pathmirror"
        return FileManager.default.isExecutableFile(atPath: path) ? path : nil
    }

    static let rules = """
        {"rules": {
          "open": {".read": true, ".write": true, "$test": {"indexed": {".indexOn": ["n", ".value"]}}},
          "valid": {".read": true, ".write": true, ".validate": "newData.isNumber()"},
          "readonly": {".read": true},
          "users": {"$uid": {".read": "auth.uid === $uid", ".write": "auth.uid === $uid"}},
          \(ModelPaths.rules)
        }}
        """

    init() async throws {
        guard let binary = Self.binary else { throw Failure(description: "there is no pathmirror to run") }
        folder = TemporaryFolder.path("client-gateway")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        certificate = folder + "/certificate.pem"
        try TestCertificates.rsaCertificate.write(toFile: certificate, atomically: false, encoding: .utf8)
        try TestCertificates.rsaKey.write(toFile: folder + "/key.pem", atomically: false, encoding: .utf8)
        secretFile = folder + "/secrets"
        try Self.secrets.joined(separator: "\n").write(toFile: secretFile, atomically: false, encoding: .utf8)
        for file in [folder + "/key.pem", secretFile] { chmod(file, 0o600) }
        try Self.rules.write(toFile: folder + "/rules.json", atomically: false, encoding: .utf8)
        let log = folder + "/log"
        _ = FileManager.default.createFile(atPath: log, contents: nil)
        process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments = [
            "-c",
            """
            "$0" dev --port 0 --data "$1/data" --rules "$1/rules.json" --clock-skew 0s --admin-secret-file "$1/secrets" --tls-listen 127.0.0.1:0 \
                --tls-certificate "$1/certificate.pem" --tls-key "$1/key.pem" & gateway=$!
            while kill -0 "$2" 2>/dev/null && [ ! -e "$1/stop" ]; do sleep 0.2; done
            kill -TERM $gateway; wait $gateway
            """,
            binary, folder, String(ProcessInfo.processInfo.processIdentifier),
        ]
        let output = FileHandle(forWritingAtPath: log)
        process.standardOutput = output
        process.standardError = output
        try process.run()
        var url: String?
        var securePort: Int?
        try await until("the gateway is ready") {
            let text = try String(contentsOfFile: log, encoding: .utf8)
            url = text.firstMatch(of: #/ready on (http://[0-9.:]+)/#).map { String($0.1) }
            securePort = text.firstMatch(of: #/ready on https://[0-9.]+:([0-9]+)\n/#).flatMap { Int($0.1) }
            return url != nil && securePort != nil
        }
        self.url = url ?? ""
        self.securePort = securePort ?? 0
    }

    func stop() async throws {
        // Clients left by tests would report the gateway's end.
        for client in clients.withLock({ $0 }) { client.goOffline() }
        _ = FileManager.default.createFile(atPath: folder + "/stop", contents: nil)
        try await until("the gateway has ended") { !process.isRunning }
        TemporaryFolder.remove(folder)
    }

    /// Creates a client that shares nothing with others.
    func client(
        directory: String? = nil, tokenProvider: PathmirrorApp.TokenProvider? = nil
    ) -> Database {
        let client = TestDatabases.make(url: url, directory: directory, tokenProvider: tokenProvider)
        clients.withLock { $0.append(client) }
        return client
    }
}

/// Gives a suite one gateway.
struct GatewayTrait: SuiteTrait, TestScoping {
    let isRecursive = false

    @concurrent func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        let gateway = try await TestGateway()
        let result: Result<Void, any Error> = await TestGateway.$current.withValue(gateway) {
            do {
                try await function()
                return .success(())
            } catch {
                return .failure(error)
            }
        }
        try await gateway.stop()
        try result.get()
    }
}

extension Trait where Self == GatewayTrait {
    static var gateway: Self { Self() }
}

/// Checks the public API against the real gateway, as apps use it.
@Suite(.gateway, .enabled(if: TestGateway.binary != nil, "no release build of pathmirror"))
struct EndToEnd {}
