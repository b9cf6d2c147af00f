import Gateway
import Glibc
import HTTPServer
import LogStore
import Runtime
import TLS

/// Judges the options of a gateway. Reads the files that they name, and opens no network connection.
enum SettingsDiagnosis {
    /// - Parameter listen: the value of `--listen`.
    static func findings(_ options: ServiceOptions, listen: String?, now: Int64) -> [Finding] {
        var found =
            files(options.authentication.warnings + (options.tls?.warnings ?? [])) + access(options, listen: listen)
        if let tls = options.tls { found.append(certificate(tls, now: now)) }
        found.append(descriptors(options.server.maxConnections))
        if options.connection.synchronousCommit == "off" {
            found.append(
                .warning(
                    "settings.synchronous_commit",
                    "--synchronous-commit is off: a crash of PostgreSQL loses acknowledged writes",
                    fix: "remove the option"))
        }
        return found
    }

    /// Findings about access of other users to files of secrets.
    static func files(_ warnings: [SecretFile.Warning]) -> [Finding] {
        warnings.map {
            .warning("settings.secrets", "other users can read or change \($0.file) (mode \($0.mode))", fix: $0.fix)
        }
    }

    /// Findings about variables that no option reads.
    static func variables(_ environment: Environment) -> [Finding] {
        let unread = UnreadVariables.names(environment)
        guard !unread.isEmpty else { return [] }
        return [
            .warning(
                "settings.environment",
                "environment variables that match no option are ignored: \(unread.joined(separator: ", "))",
                fix: "correct the names ('pathmirror serve --help all' lists them), or remove the variables")
        ]
    }

    private static func access(_ options: ServiceOptions, listen: String?) -> [Finding] {
        var found: [Finding] = []
        if options.authentication.secretFiles.all.isEmpty {
            found.append(
                .note(
                    "settings.administrators", "no administrator secret is configured",
                    fix: "--admin-secret-file FILE, if services need administrator access"))
        }
        if let listen, options.tls == nil, let address = try? ListenOption.address(listen, "listen"),
            address.host != "localhost", IPAddress(address.host)?.isLoopback != true
        {
            found.append(
                options.gateway.limits.trustedProxies.isEmpty
                    ? .warning(
                        "settings.tls", "plain HTTP on \(listen): an attacker on the network can read tokens and data",
                        fix: "use --tls-certificate and --tls-key, or a TLS proxy that --trusted-proxies names")
                    : .ok("settings.tls", "plain HTTP on \(listen), behind trusted proxies"))
        }
        return found
    }

    private static func certificate(_ tls: TLSOptions, now: Int64) -> Finding {
        let days = (tls.identity.expiresAt - now) / 86_400
        let file = tls.identity.certificateFile
        if tls.identity.expiresAt <= now {
            return .problem("settings.certificate", "the certificate in \(file) has expired", fix: "renew it")
        }
        if days < 14 {
            return .warning(
                "settings.certificate", "the certificate in \(file) expires in \(days) days", fix: "renew it")
        }
        return .ok("settings.certificate", "the certificate in \(file) is valid for \(days) days")
    }

    private static func descriptors(_ connections: Int) -> Finding {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else {
            return .note("machine.files", "the limit of open files is unknown")
        }
        let most = limit.rlim_cur > UInt(Int.max) ? Int.max : Int(limit.rlim_cur)
        // Besides connections: to PostgreSQL, to webhooks, files.
        let needed = connections + 200
        let text = "a process may open \(most) files; --max-connections is \(connections)"
        return most < needed
            ? .warning(
                "machine.files", "\(text): connections beyond that are rejected",
                fix: "set LimitNOFILE=\(needed) in the unit, or 'ulimit -n', or a lower --max-connections")
            : .ok("machine.files", text)
    }
}
