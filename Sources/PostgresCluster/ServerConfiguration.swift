/// The text of postgresql.conf and pg_hba.conf. Pure.
enum ServerConfiguration {
    /// Trust is safe: TCP is off, and only one user (and root) can reach the socket and its folder.
    static let hostBasedAuthentication = """
        # Written by pathmirror. There is no TCP; the socket's folder belongs to one user.
        local all all trust
        local replication all trust

        """

    /// The settings for one developer's machine: moderate memory and full durability.
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
            // The server notices within seconds that a gateway was killed during a statement, and releases its locks.
            "client_connection_check_interval": "5s",
        ]
        if given.durability == .testFast {
            settings["fsync"] = "off"
            settings["full_page_writes"] = "off"
        }
        return settings.merging(given.settings) { _, given in given }
    }

    /// Returns the text of postgresql.conf, which is rewritten at each start. Settings made with `ALTER SYSTEM` are
    /// read after it.
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

    /// Returns the arguments that settings must not override. The socket's folder is an element of a list, hence the
    /// double quotes.
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

    /// The port is only part of the socket's name.
    static let port = 5432
}
