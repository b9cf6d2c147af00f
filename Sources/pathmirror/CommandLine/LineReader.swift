/// Reads a file, or standard input for `-`, line by line; empty lines are left out.
struct LineReader {
    private let reader: FileReader
    private var buffer: [UInt8] = []
    private var start = 0
    private var isAtEnd = false
    private(set) var number = 0
    /// Bytes up to the end of the last line, with its line end.
    private(set) var offset = 0

    private static let maxLine = 1 << 30

    init(_ reader: FileReader) { self.reader = reader }

    /// The next line; `isWhole` is false for a last one without an end.
    mutating func next() throws -> (text: [UInt8], isWhole: Bool)? {
        var searched = start
        while true {
            if let end = buffer[searched...].firstIndex(of: 0x0A) {
                let line = Array(buffer[start..<end])
                offset += line.count + 1
                number += 1
                start = end + 1
                searched = start
                if line.isEmpty { continue }
                return (line, true)
            }
            if isAtEnd {
                guard start < buffer.count else { return nil }
                let line = Array(buffer[start...])
                start = buffer.count
                number += 1
                return (line, false)
            }
            buffer.removeFirst(start)
            start = 0
            searched = buffer.count
            guard buffer.count < Self.maxLine else {
                throw CommandFailure("\(reader.path) has a line over \(Self.maxLine) bytes.")
            }
            if let piece = try reader.next() { buffer.append(contentsOf: piece) } else { isAtEnd = true }
        }
    }
}
