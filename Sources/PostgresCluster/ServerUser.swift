import Glibc

/// The user as which PostgreSQL runs: it refuses to run as root.
struct ServerUser: Equatable {
    var name: String
    var userID: uid_t
    var groupID: gid_t
    /// The words before a command that make it run as this user. Empty if this process runs as the user.
    private var prefix: [String] = []

    /// Whether the user differs from this process's user.
    var isOther: Bool { !prefix.isEmpty }

    /// Chooses the user of this process. If that is root, chooses the owner of an existing cluster, or else `postgres`
    /// or `nobody`.
    init(existingData data: String) throws(ClusterError) {
        userID = geteuid()
        groupID = getegid()
        name = Self.name(of: userID)
        guard userID == 0 else { return }
        if let owner = ClusterFiles.status(data), owner.st_uid != 0 {
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
        // The ids are numbers, so that a user without an entry in the password file works too. setpriv replaces itself
        // with the command, so the process id is the command's own. The current directory may be closed to this user,
        // and PostgreSQL must be able to return to the directory in which it was started. The shell is given by its
        // full path, because this process's PATH may have any value.
        prefix = ["/bin/sh", "-c", "cd / && exec \"$@\"", "sh"]
        prefix += ["setpriv", "--reuid=\(userID)", "--regid=\(groupID)", "--clear-groups", "--"]
    }

    func command(_ arguments: [String]) -> [String] {
        prefix + arguments
    }

    /// Whether this user can reach the contents of the folder.
    func canEnter(_ directory: String) throws(ClusterError) -> Bool {
        try ChildProcess.run(command(["test", "-x", directory])).status == 0
    }

    static func name(of user: uid_t) -> String {
        getpwuid(user).map { String(cString: $0.pointee.pw_name) } ?? "\(user)"
    }
}
