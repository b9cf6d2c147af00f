import Glibc
public import Postgres

extension PostgresCluster {
    /// How to connect to the cluster of a data directory that another process has started; nil when none runs there.
    public static func runningURL(dataDirectory: String) -> PostgresURL? {
        // The server writes: process id, data directory, start time, port, socket directory, …
        let data = dataDirectory + "/pgdata"
        guard let text = Files.read(data + "/postmaster.pid") else { return nil }
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        guard lines.count > 4, let process = pid_t(lines[0]),
            ProcessTable.isPostmaster(process, data: data) != .no, let port = Int(lines[3])
        else { return nil }
        return PostgresURL(
            socketDirectory: String(lines[4]), port: port, user: userName, database: databaseName)
    }
}
