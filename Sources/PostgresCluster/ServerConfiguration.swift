/// The text of postgresql.conf and pg_hba.conf. Pure.
enum ServerConfiguration {
    /// Trust is safe: TCP is off, and the socket and its folder are open to one user (and root) only.
    static let hostBasedAuthentication = """
        # Written by pathmirror. There is no TCP; the socket's folder belongs to one user.
        local all all trust
        local replication all trust

        """

    /// For one developer's machine: moderate memory, full durability, few surprises.
    static func settings(_ given: ClusterSettings, hasLZ4: Bool) -> [String: String] {
        var settings = [
            "shared_buffers": "256MB",
            "max_connections": "100",
            "wal_compression": hasLZ4 ? "lz4" : "on",
            "max_wal_size": "4GB",
            "checkpoint_timeout": "15min",
            "jit": "off",
            "autovacuum": "on",
            "timezone": "UTC",
            "log_timezone": "UTC",
            "log_line_prefix": "%m [%p] ",
            "log_checkpoints": "off",
            // The dead-client check lets a killed gateway's locks go at once.
            "client_connection_check_interval": "5s",
        ]
        if given.durability == .testFast {
            settings["fsync"] = "off"
            settings["full_page_writes"] = "off"
        }
        return settings.merging(given.settings) { _, given in given }
    }

    /// postgresql.conf is written anew at each start; what a person sets by `ALTER SYSTEM` is read after it.
    static func text(_ given: ClusterSettings, hasLZ4: Bool) -> String {
        var text = "# Written by pathmirror at each start. Use ALTER SYSTEM for your own settings.\n"
        for (name, value) in settings(given, hasLZ4: hasLZ4).sorted(by: { $0.key < $1.key }) {
            text += "\(name) = '\(escaped(value))'\n"
        }
        return text
    }

    private static func escaped(_ value: String) -> String {
        var escaped = ""
        for scalar in value.unicodeScalars where scalar != "\n" && scalar != "\0" {
            if scalar == "'" || scalar == "\\" {
                escaped.unicodeScalars.append(scalar)
            }
            escaped.unicodeScalars.append(scalar)
        }
        return escaped
    }

    /// The arguments that nobody may override. The socket's folder is an element of a list, hence the double quotes.
    static func arguments(data: String, socketDirectory: String) -> [String] {
        [
            "-D", data,
            "-c", "listen_addresses=",
            "-c", "port=\(port)",
            "-c", "unix_socket_directories=\"\(socketDirectory)\"",
            "-c", "unix_socket_permissions=0700",
            "-c", "logging_collector=off",
            "-c", "log_destination=stderr",
        ]
    }

    /// Only a part of the socket's name.
    static let port = 5432
}
