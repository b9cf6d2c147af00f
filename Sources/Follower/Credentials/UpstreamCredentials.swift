internal import Runtime
internal import Tokens

/// The way in which a follower authenticates with its upstream. Stored as a kind and the name of a file, never with a secret.
public enum UpstreamCredentials: Sendable, Equatable {
    /// No login: the upstream's rules let everyone read.
    case none
    /// The token `owner`, which Firebase's emulator and `pathmirror dev` accept.
    case owner
    /// A file that every gateway can read: a service account's JSON file, or a text file with an ID token, an access token
    /// or a database secret.
    case file(String)

    /// Parses the value of `--credentials`.
    public init(option: String?) {
        switch option {
        case nil, "none": self = .none
        case "owner": self = .owner
        case let file?: self = .file(file)
        }
    }

    /// Parses the stored form.
    public init(stored text: String) throws(FollowError) {
        guard let claims = try? ClaimsReader.object(Array(text.utf8)), let kind = claims["kind"]?.string else {
            throw .invalidCredentials(file: "the database", "their stored form is damaged")
        }
        switch (kind, claims["file"]?.string) {
        case ("none", _): self = .none
        case ("owner", _): self = .owner
        case ("file", let file?): self = .file(file)
        default: throw .invalidCredentials(file: "the database", "a newer version of Pathmirror stored them")
        }
    }

    /// The stored form, a JSON object.
    public var stored: String {
        let claims: Claims =
            switch self {
            case .none: ["kind": "none"]
            case .owner: ["kind": "owner"]
            case .file(let file): ["kind": "file", "file": .string(file)]
            }
        return String(decoding: ClaimsWriter.encode(claims), as: UTF8.self)
    }

    /// Reads the file, if there is one.
    ///
    /// - Parameter read: returns the contents of a file of at most 64 kB.
    func load(_ read: (String) throws -> [UInt8]) throws(FollowError) -> LoadedCredentials {
        switch self {
        case .none: return .none
        case .owner: return .fixed(UpstreamCredential(Secret("owner"), isBearer: true))
        case .file(let file):
            let bytes: [UInt8]
            do {
                bytes = try read(file)
            } catch {
                throw .invalidCredentials(file: file, "\(error)")
            }
            let text = String(decoding: bytes, as: UTF8.self)
            if text.contains("{") { return .account(try ServiceAccount(bytes, file: file)) }
            let lines = text.split(whereSeparator: \.isNewline)
            guard lines.count == 1, let line = lines.first, line.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
                throw .invalidCredentials(
                    file: file, "the file is neither a service account in JSON nor one line with a token or a secret")
            }
            // Google's access tokens begin with ya29.
            return .fixed(UpstreamCredential(Secret(String(line)), isBearer: line.hasPrefix("ya29.")))
        }
    }
}

/// Credentials with their secret.
enum LoadedCredentials: Sendable {
    case none
    /// A token or a database secret as the file has it.
    case fixed(UpstreamCredential)
    case account(ServiceAccount)
}

/// A credential as one request or login uses it.
struct UpstreamCredential: Sendable {
    let text: Secret<String>
    /// Whether REST requests send it as a bearer token. ID tokens and database secrets are sent as the parameter `auth`
    /// (reference: upstream-facts, Authentication).
    let isBearer: Bool

    init(_ text: Secret<String>, isBearer: Bool) {
        self.text = text
        self.isBearer = isBearer
    }
}
