import Engine
import Glibc
import Runtime

extension ServiceOptions {
    /// The memory options for trees.
    static let memorySettings: [ServiceSetting] = [
        .size(
            "tree-memory", leastTreeMemory...Int.max,
            "memory limit for trees; beyond it, idle namespaces are evicted; default: half of "
                + "the machine's or the container's"
        ) { $0.engine.treeMemoryBytes = $1 },
        .text(
            "page-directory", "DIRECTORY",
            "directory for the overflow file of trees larger than --tree-memory, at most four times that; none disables it; default "
                + Pages.standard
        ) { options, text in
            options.pages.directory = text == "none" ? nil : text
            options.pages.isStandard = false
        },
    ]

    /// The overflow file for parts of trees that do not fit in memory.
    struct Pages {
        static let standard = "/var/tmp"

        /// The directory of the file; nil if there is none.
        var directory: String? = standard
        /// Whether the directory is the default.
        var isStandard = true
    }

    /// Creates the overflow file; nil if the options disable it.
    ///
    /// - Throws: if the named directory can't be used.
    func makePageFile() throws -> PageFile? {
        guard let directory = pages.directory else { return nil }
        let (fourTimes, isTooMuch) = engine.treeMemoryBytes.multipliedReportingOverflow(by: 4)
        let most = isTooMuch ? Int64.max : Int64(fourTimes)
        do {
            return try PageFile(in: directory, mostBytes: most, logger) { [logger] reason in
                logger.error(
                    "the program ends: a part of a tree can't be read from the page file",
                    [("directory", directory), ("reason", reason)])
                exit(1)
            }
        } catch {
            // The default directory may be unusable without an error.
            guard pages.isStandard else { throw UsageError("--page-directory: \(error)") }
            logger.notice(
                "no page file: trees larger than --tree-memory stay in memory",
                [("directory", directory), ("reason", error.reason)])
            return nil
        }
    }

    private static let leastTreeMemory = 1 << 20

    /// Half of the memory that this process may use.
    static var defaultTreeMemory: Int { max(leastTreeMemory, MachineMemory.bytes / 2) }
}

/// The memory that this process may use: the machine's, or the lower limit of a control group (a container's limit, systemd's
/// `MemoryMax`).
enum MachineMemory {
    /// In bytes.
    static var bytes: Int {
        let physical = sysconf(Int32(_SC_PHYS_PAGES)) * sysconf(Int32(_SC_PAGESIZE))
        return min(physical > 0 ? physical : Int.max, groupLimit(read: text(of:)) ?? Int.max)
    }

    /// The lowest limit of this process's control groups and their parents; nil if there is none.
    ///
    /// - Parameter read: returns the content of a file; nil if the file does not exist.
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

    /// The number in a file; nil for `max`, and for the number by which version 1 represents no limit.
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
