import Engine

extension ServiceOptions {
    /// What trees may take of memory, and how they get there.
    static let memorySettings: [ServiceSetting] = [
        .text(
            "tree-memory", "BYTES",
            "what the trees in memory may take of it before namespaces that nobody uses are let go, such as 4GiB; default: half of "
                + "the machine's or the container's"
        ) { options, text in
            guard let bytes = ByteCount.parse(text), bytes >= leastTreeMemory else {
                throw UsageError("--tree-memory must be a number of bytes of at least 1 MiB, such as 512MiB or 4GiB.")
            }
            options.engine.treeMemoryBytes = bytes
        },
        .number("loaders", 1...64, "threads that load namespaces, each with a connection while it is needed; default 2")
        {
            $0.engine.loaders = $1
        },
        .number(
            "max-waiting-loads", 1...10_000_000, "the most namespaces that may wait to be loaded; default 10000"
        ) {
            $0.engine.maxWaitingLoads = $1
        },
    ]

    private static let leastTreeMemory = 1 << 20

    /// Half of what this process may use.
    static var defaultTreeMemory: Int { max(leastTreeMemory, MachineMemory.bytes / 2) }
}
