import Engine
import Glibc
import Runtime

extension ServiceOptions {
    /// What trees may take of memory, and how they get there.
    static let memorySettings: [ServiceSetting] = [
        .size(
            "tree-memory", leastTreeMemory...Int.max,
            "what the trees in memory may take of it before namespaces that nobody uses are let go; default: half of "
                + "the machine's or the container's"
        ) { $0.engine.treeMemoryBytes = $1 },
        .text(
            "page-directory", "DIRECTORY",
            "where parts of trees go that are loaded while trees take more than --tree-memory, at most four times that, on a disk; none: they stay in memory; default "
                + Pages.standard
        ) { options, text in
            options.pages.directory = text == "none" ? nil : text
            options.pages.isStandard = false
        },
    ]

    /// Where parts of trees go that are too large for memory.
    struct Pages {
        static let standard = "/var/tmp"

        /// Nil: nowhere.
        var directory: String? = standard
        /// Nobody has named a directory.
        var isStandard = true
    }

    /// The file of the parts of trees that are too large for memory; nil where there is to be none.
    ///
    /// - Throws: where the directory that was named can't be used.
    func makePageFile() throws -> PageFile? {
        guard let directory = pages.directory else { return nil }
        let (fourTimes, isTooMuch) = engine.treeMemoryBytes.multipliedReportingOverflow(by: 4)
        let most = isTooMuch ? Int64.max : Int64(fourTimes)
        do {
            return try PageFile(in: directory, mostBytes: most, logger) { [logger] reason in
                logger.error(
                    "the program ends, as a part of a tree can't be read from the page file",
                    [("directory", directory), ("reason", reason)])
                exit(1)
            }
        } catch {
            // Whoever has not asked for it may have no directory for it.
            guard pages.isStandard else { throw UsageError("--page-directory: \(error)") }
            logger.notice(
                "there is no page file, and trees that take more than --tree-memory stay in memory",
                [("directory", directory), ("reason", error.reason)])
            return nil
        }
    }

    private static let leastTreeMemory = 1 << 20

    /// Half of what this process may use.
    static var defaultTreeMemory: Int { max(leastTreeMemory, MachineMemory.bytes / 2) }
}

/// How much memory this process may use: the machine's, or less where a control group says so (a container's limit, systemd's
/// `MemoryMax`).
enum MachineMemory {
    /// Bytes.
    static var bytes: Int {
        let physical = sysconf(Int32(_SC_PHYS_PAGES)) * sysconf(Int32(_SC_PAGESIZE))
        return min(physical > 0 ? physical : Int.max, groupLimit(read: text(of:)) ?? Int.max)
    }

    /// The lowest limit among this process's control groups and those above them; nil where there is none.
    ///
    /// - Parameter read: what a file says; nil where it isn't there.
    static func groupLimit(read: (_ path: String) -> String?) -> Int? {
        var limits: [Int] = []
        for line in (read("/proc/self/cgroup") ?? "").split(separator: "\n") {
            // `number:controllers:path`; no controllers in version 2.
            let parts = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
            guard parts.count == 3 else { continue }
            let (root, file): (String, String)
            if parts[1].isEmpty {
                (root, file) = ("/sys/fs/cgroup", "memory.max")
            } else if parts[1].split(separator: ",").contains("memory") {
                (root, file) = ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            } else {
                continue
            }
            var names = parts[2].split(separator: "/")[...]
            while true {
                let folder = ([root] + names.map(String.init)).joined(separator: "/")
                if let limit = read("\(folder)/\(file)").flatMap(Self.limit) { limits.append(limit) }
                if names.popLast() == nil { break }
            }
        }
        return limits.min()
    }

    /// The number of a file; nil for `max`, and for version 1's way to say that there is no limit.
    private static func limit(_ text: String) -> Int? {
        guard let number = Int(text.filter { !$0.isWhitespace }), number > 0, number < 1 << 60 else { return nil }
        return number
    }

    private static func text(of path: String) -> String? {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return nil }
        defer { close(file) }
        var buffer = [UInt8](repeating: 0, count: 16_384)
        let count = buffer.withUnsafeMutableBytes { Glibc.read(file, $0.baseAddress, $0.count) }
        return count > 0 ? String(decoding: buffer[..<count], as: UTF8.self) : nil
    }
}
