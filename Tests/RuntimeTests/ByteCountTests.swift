import Runtime
import Testing

/// Checks the sizes that users write and read.
@Suite struct ByteCountTests {
    @Test(arguments: [
        ("512MiB", 512 << 20), ("4GiB", 4 << 30), ("2GB", 2_000_000_000), ("64KiB", 65_536), ("50kB", 50_000),
        ("1tib", 1 << 40), ("1TB", 1_000_000_000_000), ("7B", 7), ("0B", 0),
    ]) func sizes(_ text: String, _ bytes: Int) { #expect(ByteCount.parse(text) == bytes) }

    /// A number without a unit is ambiguous; `64m` could be minutes.
    @Test(arguments: [
        "", "0", "1048576", "2 GB", " 2GB", "2GB ", "GiB", "-1B", "1.5GiB", "1 G i B", "4GiBs", "64m", "64k", "4g",
        "99999999999999999999B",
        "9999999999GiB", "٣B", "64MiB/m",
    ]) func textsThatAreNone(_ text: String) { #expect(ByteCount.parse(text) == nil) }

    @Test(
        arguments: [
            (0, "0B"), (1, "1B"), (1_001, "1001B"), (1_024, "1KiB"), (50_000_000_000, "50GB"), (64 << 20, "64MiB"),
            (1 << 40, "1TiB"), (Int64.max, "9223372036854775807B"),
        ] as [(Int64, String)]) func exactTexts(_ bytes: Int64, _ text: String)
    {
        #expect(ByteCount.exactText(bytes) == text)
        #expect(ByteCount.parse(text) == Int(bytes))
    }
}
