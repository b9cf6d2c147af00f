import Crypto

/// Who writes under a name, as the database keeps it: callers with the same one are the same to security rules.
public struct WriterIdentity: Sendable, Hashable {
    /// Begins with 1 for one user, and with 0 for what many callers share.
    let bytes: [UInt8]

    private init(bytes: [UInt8]) { self.bytes = bytes }

    init?(stored bytes: [UInt8]) {
        guard !bytes.isEmpty else { return nil }
        self.bytes = bytes
    }

    /// Callers without a login.
    public static let nobody = WriterIdentity(bytes: [0, 0])
    /// Administrators, whom no rule judges.
    public static let administrator = WriterIdentity(bytes: [0, 1])

    /// A user, by what tells one from others.
    public static func user(_ text: String) -> WriterIdentity {
        WriterIdentity(bytes: [1] + Digest.sha256(Array("pathmirror writer\n\(text)".utf8)).prefix(16))
    }
}
