internal import Glibc

/// Who may open a file, as far as its mode says.
public struct FilePermissions: Sendable, Equatable {
    /// The lower twelve bits.
    public let mode: UInt32
    /// The owner's user id.
    public let owner: UInt32

    public init(mode: UInt32, owner: UInt32) {
        self.mode = mode & 0o7777
        self.owner = owner
    }

    /// The file's at a path, links followed; nil where there is nothing, what is there is no file (a pipe has no readers
    /// but those it was made for), or it can't be reached.
    public init?(ofFile path: String) {
        var status = stat()
        guard stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
        self.init(mode: status.st_mode, owner: status.st_uid)
    }

    /// Whether anybody besides the owner may read or change it: its group, or the world. Root always may, and doesn't
    /// count. Where a file has an access list, the middle digit is the most that the list gives anybody.
    public var areForOthers: Bool { mode & 0o066 != 0 }

    /// The mode as it is usually written: `0640`.
    public var modeText: String {
        let digits = String(mode, radix: 8)
        return "0" + String(repeating: "0", count: max(0, 3 - digits.count)) + digits
    }
}
