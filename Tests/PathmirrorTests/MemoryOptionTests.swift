import Engine
import Testing

@testable import pathmirror

/// How much memory there is, and how people write bytes.
@Suite struct MemoryOptionTests {
    @Test(arguments: [
        ("1048576", 1 << 20), ("512MiB", 512 << 20), ("4GiB", 4 << 30), ("4g", 4 << 30), ("2 GB", 2_000_000_000),
        ("64k", 65_536), ("1tib", 1 << 40), ("7B", 7), ("0", 0),
    ]) func bytes(_ text: String, _ count: Int) { #expect(ByteCount.parse(text) == count) }

    @Test(arguments: ["", "GiB", "-1", "1.5GiB", "1 G i B", "4GiBs", "99999999999999999999", "9999999999GiB", "٣"])
    func noBytes(_ text: String) { #expect(ByteCount.parse(text) == nil) }

    @Test func theOption() throws {
        #expect(try ServiceOptionsTests.options(["--tree-memory", "2GiB"]).engine.treeMemoryBytes == 2 << 30)
        let standard = try ServiceOptionsTests.options([]).engine.treeMemoryBytes
        #expect(standard == MachineMemory.bytes / 2 && standard > 1 << 20)
        for text in ["", "x", "1023KiB", "-5"] {
            #expect(
                ServiceOptionsTests.message(["--tree-memory", text])
                    == "--tree-memory must be a number of bytes of at least 1 MiB, such as 512MiB or 4GiB.")
        }
    }

    @Test func thePageFile() throws {
        let standard = try ServiceOptionsTests.options([]).pages
        #expect(standard.directory == "/var/tmp" && standard.isStandard && standard.bytes == nil)
        let named = try ServiceOptionsTests.options(["--page-directory", "/srv/x", "--page-file-bytes", "3GiB"]).pages
        #expect(named.directory == "/srv/x" && !named.isStandard && named.bytes == 3 << 30)
        let none = try ServiceOptionsTests.options(["--page-directory", "none"])
        #expect(try none.makePageFile() == nil)
        #expect(
            ServiceOptionsTests.message(["--page-file-bytes", "x"])
                == "--page-file-bytes must be a number of bytes, such as 512MiB or 64GiB.")
        // Four times this is no number any more.
        let vast = try ServiceOptionsTests.options(["--tree-memory", "8000000TiB", "--page-directory", "/tmp"])
        #expect(try vast.makePageFile() != nil)
    }

    private static func limit(_ files: [String: String]) -> Int? { MachineMemory.groupLimit { files[$0] } }

    @Test func theLowestLimitAboveHolds() {
        let files = [
            "/proc/self/cgroup": "0::/a/b\n", "/sys/fs/cgroup/memory.max": "9000\n",
            "/sys/fs/cgroup/a/memory.max": "5000\n",
            "/sys/fs/cgroup/a/b/memory.max": "max\n",
        ]
        #expect(Self.limit(files) == 5_000)
    }

    @Test func version1() {
        let files = [
            "/proc/self/cgroup": "12:cpu,cpuacct:/x\n5:memory:/c\n1:name=systemd:/y\n",
            "/sys/fs/cgroup/memory/c/memory.limit_in_bytes": "7000\n",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        ]
        #expect(Self.limit(files) == 7_000)
    }

    @Test func noLimit() {
        #expect(Self.limit([:]) == nil)
        #expect(Self.limit(["/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "max"]) == nil)
        #expect(Self.limit(["/proc/self/cgroup": "nonsense\n:::\n0::\n"]) == nil)
    }
}
