import Crypto
import TestSupport
import Testing
import Tokens

struct TokenTests {
    static let secret = Array("a secret of forty characters 0123456789A".utf8)
    static let claims: Claims = ["sub": "ada", "iat": 1_000, "exp": 2_000]

    static func token(header: String, payload: String, signature: [UInt8] = []) -> String {
        "\(Base64URL.encode(Array(header.utf8))).\(Base64URL.encode(Array(payload.utf8))).\(Base64URL.encode(signature))"
    }

    /// Returns a validly signed token with any header and payload.
    static func signed(header: String, payload: String) -> String {
        let text = String(token(header: header, payload: payload).dropLast())
        return "\(text).\(Base64URL.encode(HMAC.sha256(Array(text.utf8), key: secret)))"
    }

    @Test func `tokens come back`() throws {
        let token = try JWT(JWT.mint(Self.claims, secret: Self.secret))
        #expect(token.algorithm == .hs256)
        #expect(token.claims == Self.claims)
        try token.verify(withSecret: Self.secret)
        let other = try JWT(try JWT.mint(Self.claims, key: TestKeys.privateKey(), keyID: "k1"))
        #expect(other.algorithm == .rs256)
        #expect(other.keyID == "k1")
        try other.verify(with: TestKeys.publicKey())
    }

    /// Checks the example of RFC 7515, appendix A.1.
    @Test func `a token of another maker`() throws {
        let text =
            "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9"
            + ".eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
            + ".dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
        let key = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"
        let token = try JWT(text)
        try token.verify(withSecret: try #require(Base64URL.decode(key.utf8)))
        #expect(token.claims["http://example.com/is_root"] == true)
    }

    @Test func `another secret, another key, another text`() throws {
        let token = try JWT(JWT.mint(Self.claims, secret: Self.secret))
        #expect(throws: JWTError.badSignature) { try token.verify(withSecret: Self.secret + [1]) }
        #expect(throws: JWTError.badSignature) { try token.verify(withSecret: []) }
        let parts = JWT.mint(Self.claims, secret: Self.secret).split(separator: ".")
        let others = JWT.mint(["sub": "eve"], secret: Self.secret).split(separator: ".")
        let mixed = try JWT("\(parts[0]).\(others[1]).\(parts[2])")
        #expect(throws: JWTError.badSignature) { try mixed.verify(withSecret: Self.secret) }
    }

    /// Checks every published text of the public key used as an HMAC secret, a well-known attack.
    @Test func `an HS256 token signed with a public key never passes for an RS256 one`() throws {
        let key = try TestKeys.publicKey()
        for text in [TestKeys.certificatePEM, TestKeys.certificatePEM + "\n", TestKeys.modulus] {
            let token = try JWT(JWT.mint(Self.claims, secret: Array(text.utf8)))
            #expect(throws: JWTError.wrongAlgorithm("HS256")) { try token.verify(with: key) }
        }
        let other = try JWT(try JWT.mint(Self.claims, key: TestKeys.privateKey(), keyID: "k"))
        #expect(throws: JWTError.wrongAlgorithm("RS256")) { try other.verify(withSecret: Self.secret) }
    }

    @Test func `an unsigned token verifies with nothing`() throws {
        let token = try JWT(Self.token(header: #"{"alg":"none","type":"JWT"}"#, payload: #"{"sub":"ada"}"#))
        #expect(token.algorithm == .none)
        #expect(throws: JWTError.wrongAlgorithm("none")) { try token.verify(withSecret: Self.secret) }
        #expect(throws: JWTError.wrongAlgorithm("none")) { try token.verify(withSecret: []) }
        #expect(throws: JWTError.wrongAlgorithm("none")) { try token.verify(with: TestKeys.publicKey()) }
    }

    @Test(arguments: [
        #"{"alg":"None"}"#, #"{"alg":"NONE"}"#, #"{"alg":"nOnE"}"#, #"{"alg":"hs256"}"#, #"{"alg":"HS384"}"#,
        #"{"alg":"HS512"}"#, #"{"alg":"RS512"}"#, #"{"alg":"PS256"}"#, #"{"alg":"ES256"}"#, #"{"alg":"EdDSA"}"#,
        #"{"alg":""}"#, #"{"alg":"HS256 "}"#, #"{"alg":"HS256\u0000"}"#, #"{"alg":null}"#, #"{"alg":256}"#,
        #"{"alg":["HS256"]}"#, #"{}"#, #"[]"#, #""HS256""#, #"{"alg":"HS256","alg":"none"}"#,
        #"{"alg":"HS256","crit":["exp"]}"#, #"{"alg":"HS256","kid":7}"#, #"{"alg":"none"}"#,
    ])
    func `other headers are refused, however well signed`(header: String) {
        #expect(throws: JWTError.self) { try JWT(Self.signed(header: header, payload: "{}")) }
    }

    @Test(arguments: ["[]", "null", "1", "{", #"{"a":1,"a":2}"#, #"{"sub":"a"}x"#, ""])
    func `other payloads are refused, however well signed`(payload: String) {
        #expect(throws: JWTError.self) { try JWT(Self.signed(header: #"{"alg":"HS256"}"#, payload: payload)) }
    }

    @Test func `a signature where there should be none, and none where there should be one`() {
        #expect(throws: JWTError.self) {
            try JWT(Self.token(header: #"{"alg":"none"}"#, payload: "{}", signature: [1]))
        }
        #expect(throws: JWTError.self) { try JWT(Self.token(header: #"{"alg":"HS256"}"#, payload: "{}")) }
    }

    @Test func `the size is bounded`() {
        let large = JWT.mint(["sub": .string(String(repeating: "a", count: 20_000))], secret: Self.secret)
        #expect(throws: JWTError.tooLarge(bytes: large.utf8.count)) { try JWT(large) }
        #expect(throws: JWTError.self) { try JWT(String(repeating: ".", count: 1_000_000)) }
    }

    @Test func `every shorter token is refused`() {
        let token = JWT.mint(Self.claims, secret: Self.secret)
        for count in 0..<token.count {
            #expect(!Self.isAccepted(String(token.prefix(count))))
        }
        for text in [" \(token)", "\(token) ", "\(token)=", "\(token).", ".\(token)", "\(token).x"] {
            #expect(!Self.isAccepted(text))
        }
    }

    @Test func `every changed character is noticed`() {
        let token = Array(JWT.mint(Self.claims, secret: Self.secret).utf8)
        for index in token.indices {
            for byte: UInt8 in [UInt8(ascii: "A"), UInt8(ascii: "_"), UInt8(ascii: "."), 0, 0xFF]
            where byte != token[index] {
                var changed = token
                changed[index] = byte
                #expect(!Self.isAccepted(String(decoding: changed, as: UTF8.self)))
            }
        }
    }

    /// Checks that randomly changed tokens and random texts are refused without a crash.
    @Test func `random texts`() throws {
        var generator = SeededGenerator(seed: 0x70_6174_68)
        let key = try TestKeys.privateKey()
        let originals = [
            JWT.mint(Self.claims, secret: Self.secret), try JWT.mint(Self.claims, key: key, keyID: "k"),
            Self.token(header: #"{"alg":"none"}"#, payload: #"{"sub":"a"}"#),
        ]
        for _ in 0..<4_000 {
            var bytes = Array(originals[Int.random(in: 0..<3, using: &generator)].utf8)
            for _ in 0..<Int.random(in: 1...4, using: &generator) {
                let index = Int.random(in: 0..<bytes.count, using: &generator)
                switch Int.random(in: 0..<4, using: &generator) {
                case 0: bytes[index] = UInt8.random(in: 0...255, using: &generator)
                case 1 where bytes.count > 1: bytes.remove(at: index)
                case 2: bytes.insert(UInt8.random(in: 0...127, using: &generator), at: index)
                default: bytes.swapAt(index, Int.random(in: 0..<bytes.count, using: &generator))
                }
            }
            let text = String(decoding: bytes, as: UTF8.self)
            if originals.contains(text) { continue }
            #expect(!Self.isAccepted(text), "\(text)")
        }
    }

    private static func isAccepted(_ text: String) -> Bool {
        guard let token = try? JWT(text) else { return false }
        if (try? token.verify(withSecret: secret)) != nil { return true }
        guard let key = try? TestKeys.publicKey() else { return false }
        return (try? token.verify(with: key)) != nil
    }
}

/// A xorshift64* generator.
struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed | 1 }

    mutating func next() -> UInt64 {
        state ^= state >> 12
        state ^= state << 25
        state ^= state >> 27
        return state &* 0x2545_F491_4F6C_DD1D
    }
}
