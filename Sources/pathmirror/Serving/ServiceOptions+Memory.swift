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
