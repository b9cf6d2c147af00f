/// About how much memory the tree of a JSON text takes: known before it is made.
public enum JSONSize {
    /// A branch of one child.
    private static let bytesPerBranch = 240
    /// A further child, with a key.
    private static let bytesPerChild = 64

    /// One pass over the text. Brackets and commas in strings count, too: the estimate is no less than the truth, as far
    /// as the number of nodes goes; their texts take no more than the text does.
    public static func estimate(_ text: [UInt8]) -> Int {
        text.withUnsafeBufferPointer { bytes in
            var branches = 0
            var children = 0
            for byte in bytes {
                if byte == UInt8(ascii: ",") { children &+= 1 }
                if byte == UInt8(ascii: "{") || byte == UInt8(ascii: "[") { branches &+= 1 }
            }
            return branches * bytesPerBranch + children * bytesPerChild
        }
    }
}
