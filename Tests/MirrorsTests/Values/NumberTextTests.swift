import Postgres
import TestSupport
import Testing
import Tree

@testable import Mirrors

/// Tests of decimal numbers and UUIDs as texts, compared with PostgreSQL.
@Suite struct NumberTextTests {
    @Test(arguments: [
        "0", "-0", "+0", "12", "12.5", "-12.50", "00", "1e5", "1E5", "1e+5", "1e-5", "1.5e1000", "1e-1000",
        String(repeating: "9", count: 1_000),
    ])
    func decimalNumbers(text: String) { #expect(DecimalText.isNumber(text)) }

    @Test(arguments: [
        "", "-", "+", ".", "1.", ".1", "1.e5", "e5", "1e", "1e+", "1e1001", "1e-1001", "1e99999999999999999999",
        "1.5.5", "1e5.5",
        " 1", "1 ", "1\n", "NaN", "nan", "Infinity", "inf", "0x1", "1_0", "１", "1,5", "--1", "1-", "1é",
        String(repeating: "9", count: 1_001),
    ])
    func noDecimalNumbers(text: String) { #expect(!DecimalText.isNumber(text)) }

    /// Checks that PostgreSQL accepts each text that is taken for a number or a UUID. Otherwise a whole batch of rows
    /// would fail.
    @Test func whatIsTakenPostgreSQLTakes() throws {
        var random = SeededGenerator(seed: 3)
        var numbers: [String] = []
        let parts = ["0", "1", "12", ".", "e", "E", "-", "+", "9", "00", "5", " ", "1000", "999"]
        for _ in 0..<30_000 {
            let text = (0..<(1 + random.below(7))).map { _ in random.pick(parts) }.joined()
            if DecimalText.isNumber(text) { numbers.append(text) }
        }
        #expect(numbers.count > 1_000)
        try withDatabase { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            var array = PostgresArray(of: .text)
            for number in numbers { array.appendText(number) }
            let count = try connection.execute(
                "select count(given::numeric) from unnest($1::text[]) as given", [.array(array)]
            ).int64(0, 0)
            #expect(count == Int64(numbers.count))
        }
    }

    @Test func uuids() throws {
        let good = "A0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
        #expect(UUIDText.isUUID(good))
        let bytes: [UInt8] = [
            0xA0, 0xEE, 0xBC, 0x99, 0x9C, 0x0B, 0x4E, 0xF8, 0xBB, 0x6D, 0x6B, 0xB9, 0xBD, 0x38, 0x0A, 0x11,
        ]
        #expect(UUIDText.bytes(good) == bytes)
        for index in 0..<36 {
            var changed = Array(good.utf8)
            changed[index] = changed[index] == UInt8(ascii: "-") ? UInt8(ascii: "0") : UInt8(ascii: "-")
            #expect(!UUIDText.isUUID(String(decoding: changed, as: UTF8.self)), "\(index)")
            changed[index] = UInt8(ascii: "g")
            #expect(!UUIDText.isUUID(String(decoding: changed, as: UTF8.self)), "\(index)")
        }
        for text in ["", String(good.dropLast()), good + "0", "{\(good)}", String(repeating: "-", count: 36)] {
            #expect(!UUIDText.isUUID(text), "\(text)")
        }
    }

    @Test(arguments: [
        (KeyType.text, "anything", true), (.text, "", true), (.bigint, "0", true), (.bigint, "-5", true),
        (.bigint, "05", false),
        (.bigint, "+5", false), (.bigint, "-0", false), (.bigint, "", false), (.bigint, "5 ", false),
        (.bigint, "9223372036854775807", true), (.bigint, "9223372036854775808", false),
        (.bigint, "-9223372036854775808", true),
        (.uuid, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", true), (.uuid, "A0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", false),
        (.uuid, "x", false),
    ])
    func whatKeysAreStoredAs(type: KeyType, text: String, holds: Bool) { #expect(type.holds(Key(text)) == holds) }
}
