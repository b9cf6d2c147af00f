import Glibc

/// Who PostgreSQL runs as: it refuses root.
struct ServerUser: Equatable {
    var name: String
    var userID: uid_t
    var groupID: gid_t
    /// What comes before a command so that it runs as this user; empty if that is who we are.
    private var prefix: [String] = []

    /// Whether this is somebody other than the user of this process.
    var isOther: Bool { !prefix.isEmpty }

    /// Ourselves; if we are root, the owner of an existing cluster, else `postgres`, else `nobody`.
    init(existingData data: String) throws(ClusterError) {
        userID = geteuid()
        groupID = getegid()
        name = Self.name(of: userID)
        guard userID == 0 else { return }
        if let owner = Files.status(data), owner.st_uid != 0 {
            userID = owner.st_uid
            groupID = owner.st_gid
            name = Self.name(of: userID)
        } else if let entry = getpwnam("postgres") ?? getpwnam("nobody") {
            userID = entry.pointee.pw_uid
            groupID = entry.pointee.pw_gid
            name = String(cString: entry.pointee.pw_name)
        } else {
            throw ClusterError(
                .system, "PostgreSQL does not run as root, and there is no user «postgres» or «nobody» to run it as")
        }
        // By number: a user without an entry in the password file works too. setpriv replaces itself by the command,
        // so the process id is the command's own. The current directory may be closed to this user, and PostgreSQL
        // wants to return to where it was started. The shell is named in full, as our own PATH may be anything.
        prefix = ["/bin/sh", "-c", "cd / && exec \"$@\"", "sh"]
        prefix += ["setpriv", "--reuid=\(userID)", "--regid=\(groupID)", "--clear-groups", "--"]
    }

    func command(_ arguments: [String]) -> [String] {
        prefix + arguments
    }

    /// Whether this user can reach what is in the folder.
    func canEnter(_ directory: String) throws(ClusterError) -> Bool {
        try ChildProcess.run(command(["test", "-x", directory])).status == 0
    }

    static func name(of user: uid_t) -> String {
        getpwuid(user).map { String(cString: $0.pointee.pw_name) } ?? "\(user)"
    }
}
