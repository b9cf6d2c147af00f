import CNATS
import Glibc
public import Runtime

/// The servers, the credentials, and the timeouts of a client.
public struct NATSSettings: Sendable {
    public enum Credentials: Sendable {
        case none
        case password(user: String, Secret<String>)
        case token(Secret<String>)
        /// A file with a JSON Web Token and the seed of its key, in the format of `nsc`.
        case file(String)
    }

    /// The servers of one cluster as `nats://host:port` or `tls://host:port`, tried in any order. If one uses `tls:`, all do.
    public var servers: [String]
    public var credentials = Credentials.none
    /// A PEM file of certificate authorities to trust instead of the system's.
    public var certificateAuthoritiesFile: String?
    /// The client's name, visible to the server's operators.
    public var name = "pathmirror"
    /// The timeout for connecting to one server.
    public var connectTimeoutMilliseconds: Milliseconds = 5_000
    /// The timeout from `publish` to the acknowledgement.
    public var timeoutMilliseconds: Milliseconds = 10_000
    /// How long the connection may accept no bytes before it is closed.
    public var writeTimeoutMilliseconds: Milliseconds = 5_000
    /// The maximum number of messages in flight and waiting. Further messages are refused.
    public var maxMessages = 10_000

    public init(servers: [String]) { self.servers = servers }
}

/// The settings in the library's format.
final class NATSOptions {
    let pointer: OpaquePointer

    init(_ settings: NATSSettings) throws(NATSError) {
        var made: OpaquePointer?
        guard natsOptions_Create(&made) == NATS_OK, let made else { throw .cannotStart("no memory for options") }
        pointer = made
        try setServers(settings.servers)
        try check(natsOptions_SetName(pointer, settings.name), "the client's name")
        try check(natsOptions_SetTimeout(pointer, settings.connectTimeoutMilliseconds), "the timeout")
        try check(natsOptions_SetWriteDeadline(pointer, settings.writeTimeoutMilliseconds), "the timeout of writes")
        // A broken connection is not used again. The library would otherwise keep messages and send them after later
        // messages of other publishers.
        try check(natsOptions_SetAllowReconnect(pointer, false), "reconnecting")
        try check(natsOptions_SetNoEcho(pointer, true), "echoing")
        // A server that has vanished silently is noticed after two intervals.
        try check(natsOptions_SetPingInterval(pointer, 20_000), "the interval of pings")
        try setCredentials(settings.credentials)
        if let file = settings.certificateAuthoritiesFile {
            try check(
                natsOptions_LoadCATrustedCertificates(pointer, file), "the file of certificate authorities \(file)")
        }
    }

    deinit { natsOptions_Destroy(pointer) }

    private func setServers(_ servers: [String]) throws(NATSError) {
        let isSecure = servers.contains { $0.hasPrefix("tls://") }
        // The library accepts any scheme and ignores it.
        let plain = servers.map { $0.hasPrefix("tls://") ? "nats://" + $0.dropFirst(6) : $0 }
        let copies = plain.map { strdup($0) }
        defer { for copy in copies { free(copy) } }
        var pointers: [UnsafePointer<CChar>?] = copies.map { UnsafePointer($0) }
        try check(natsOptions_SetServers(pointer, &pointers, Int32(pointers.count)), "the servers' addresses")
        if isSecure { try check(natsOptions_SetSecure(pointer, true), "TLS") }
    }

    private func setCredentials(_ credentials: NATSSettings.Credentials) throws(NATSError) {
        switch credentials {
        case .none: break
        case .password(let user, let password):
            try check(natsOptions_SetUserInfo(pointer, user, password.revealed()), "user and password")
        case .token(let token): try check(natsOptions_SetToken(pointer, token.revealed()), "the token")
        case .file(let path):
            try check(natsOptions_SetUserCredentialsFromFiles(pointer, path, nil), "the file of credentials")
        }
    }

    private func check(_ status: natsStatus, _ what: String) throws(NATSError) {
        guard status != NATS_OK else { return }
        throw .cannotStart("the library does not accept \(what)")
    }
}
