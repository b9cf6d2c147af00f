import CNATS
import Glibc
import Runtime

/// The library's form of the settings.
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
        // A connection that broke is done with. The library would keep messages and send them when somebody else has sent
        // later ones.
        try check(natsOptions_SetAllowReconnect(pointer, false), "reconnecting")
        try check(natsOptions_SetNoEcho(pointer, true), "echoing")
        // A server that has vanished without a word is noticed after two of these.
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
        // The library takes any scheme and heeds none.
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
        throw .cannotStart("the library does not take \(what)")
    }
}
