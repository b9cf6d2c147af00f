import Glibc
import Postgres
import Synchronization

@testable import PostgresCluster

/// A data directory for one test. Stops the servers started in it and removes everything at the end.
final class ClusterFolder {
    let path: String
    private var clusters: [PostgresCluster] = []
    private let said = Said()

    init(_ name: String, parent: String = "/tmp") {
        path = "\(parent)/pathmirror-cluster-tests-\(getpid())-\(name)"
    }

    deinit {
        for cluster in clusters { cluster.stop(.immediate) }
        if let target = try? ClusterFiles.absolute(path + "/pgdata"), target.hasPrefix("/var/lib/pathmirror/") {
            ClusterFiles.parent(of: target).map(ClusterFiles.removeTree)
            rmdir("/var/lib/pathmirror")
        }
        ClusterFiles.removeTree(path)
    }

    /// The messages passed to `progress`.
    var progress: [String] { said.lines.withLock { $0 } }

    var settings: ClusterSettings {
        var settings = ClusterSettings(dataDirectory: path)
        settings.durability = .testFast
        settings.progress = { [said] line in said.lines.withLock { $0.append(line) } }
        return settings
    }

    func start(_ change: (inout ClusterSettings) -> Void = { _ in }) throws -> PostgresCluster {
        var settings = settings
        change(&settings)
        let cluster = try PostgresCluster.start(settings)
        clusters.append(cluster)
        return cluster
    }

    private final class Said: Sendable {
        let lines = Mutex<[String]>([])
    }
}

extension PostgresCluster {
    func value(_ sql: String) throws -> String {
        try PostgresConnection(url).execute(sql).string(0, 0)
    }
}
