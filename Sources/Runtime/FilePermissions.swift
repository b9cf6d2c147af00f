internal import Glibc

/// The permissions of a file according to its mode.
public struct FilePermissions: Sendable, Equatable {
    /// The lower twelve bits of the mode.
    public let mode: UInt32
    /// The owner's user id.
    public let owner: UInt32

    public init(mode: UInt32, owner: UInt32) {
        self.mode = mode & 0o7777
        self.owner = owner
    }

    /// Reads the permissions of the file at a path, following links. Nil if there is no file, if it is not a regular
    /// file (a pipe has only its intended readers), or if it cannot be reached.
    public init?(ofFile path: String) {
        var status = stat()
        guard stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
        self.init(mode: status.st_mode, owner: status.st_uid)
    }

    /// Whether users other than the owner may read or change the file: its group, or all users. Root always may, and
    /// does not count. For a file with an access control list, the middle digit is the maximum that the list grants.
    public var areForOthers: Bool { mode & 0o066 != 0 }

    /// The mode as usually written: `0640`.
    public var modeText: String {
        let digits = String(mode, radix: 8)
        return "0" + String(repeating: "0", count: max(0, 3 - digits.count)) + digits
    }
}
