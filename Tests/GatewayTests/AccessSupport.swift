import Crypto
import Glibc
import HTTPClient
import Runtime
import Synchronization
import Tokens

@testable import Gateway

/// A signing key created for one run of the tests. The tests create it with the `openssl` program because the gateway
/// has no code for that.
struct TestSigner: Sendable {
    let key: RSAPrivateKey
    let certificatePEM: String

    static let first: Result<TestSigner, any Error> = Result { try TestSigner() }
    static let second: Result<TestSigner, any Error> = Result { try TestSigner() }

    private init() throws {
        let directory = "/tmp/pathmirror-keys-\(getpid())-\(UInt64.random(in: 0 ... .max))"
        mkdir(directory, 0o700)
        defer {
            for name in ["k", "c"] { unlink("\(directory)/\(name)") }
            rmdir(directory)
        }
        try Self.run([
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "\(directory)/k", "-out",
            "\(directory)/c", "-days", "2", "-subj", "/CN=test",
        ])
        key = try RSAPrivateKey(pem: try Self.read("\(directory)/k"))
        certificatePEM = String(decoding: try Self.read("\(directory)/c"), as: UTF8.self)
    }

    struct Failure: Error {}

    private static func run(_ words: [String]) throws {
        var arguments = words.map { strdup($0) } + [nil]
        defer { for argument in arguments { free(argument) } }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0)
        var child: pid_t = 0
        guard posix_spawnp(&child, words[0], &actions, nil, &arguments, environ) == 0 else { throw Failure() }
        var status: Int32 = 0
        guard waitpid(child, &status, 0) == child, status == 0 else { throw Failure() }
    }

    private static func read(_ path: String) throws -> [UInt8] {
        let file = open(path, O_RDONLY)
        guard file >= 0 else { throw Failure() }
        defer { close(file) }
        return [UInt8](unsafeUninitializedCapacity: 65_536) { buffer, count in
            count = max(0, Glibc.read(file, buffer.baseAddress, buffer.count))
        }
    }
}

/// A simulated key server without a network. Returns a configured answer, either immediately or when released.
final class FakeKeyServer: Sendable {
    typealias Answer = Result<ClientResponse, HTTPClientError>

    private struct State {
        var answer: Answer = .failure(.timedOut)
        var isHolding = false
        var held: [@Sendable (Answer) -> Void] = []
        var fetches = 0
    }
    private let state = MutexBox(State())

    var fetches: Int { state.withLock { $0.fetches } }

    func serve(_ keys: [String: String], cacheControl: String? = "public, max-age=3600", age: String? = nil) {
        var claims = Claims()
        for (id, pem) in keys { claims[id] = .string(pem) }
        serve(body: ClaimsWriter.encode(claims), cacheControl: cacheControl, age: age)
    }

    func serve(body: [UInt8], status: Int = 200, cacheControl: String? = nil, age: String? = nil) {
        var headers: [(name: String, value: String)] = []
        if let cacheControl { headers.append(("cache-control", cacheControl)) }
        if let age { headers.append(("age", age)) }
        let response = ClientResponse(status: status, headers: headers, body: body)
        state.withLock { $0.answer = .success(response) }
    }

    func fail() { state.withLock { $0.answer = .failure(.unreachable("down")) } }

    func hold() { state.withLock { $0.isHolding = true } }

    func release() {
        let (held, answer) = state.withLock { state in
            defer { state.held = [] }
            state.isHolding = false
            return (state.held, state.answer)
        }
        for callback in held { callback(answer) }
    }

    func fetch(_ callback: @escaping @Sendable (Answer) -> Void) {
        let answer = state.withLock { state -> Answer? in
            state.fetches += 1
            guard state.isHolding else { return state.answer }
            state.held.append(callback)
            return nil
        }
        if let answer { callback(answer) }
    }

    func makeKeySet(_ settings: KeySetSettings = KeySetSettings()) -> KeySet {
        KeySet(settings, logger: .silent) { [self] in fetch($0) }
    }
}

extension Logger {
    static let silent = Logger(level: .error, descriptor: -1)
}

extension KeySetMachine.Lookup {
    /// The name of the result without its key, for comparison.
    var name: String {
        switch self {
        case .key: "key"
        case .unknown: "unknown"
        case .unavailable: "unavailable"
        case .wait: "wait"
        }
    }
}
