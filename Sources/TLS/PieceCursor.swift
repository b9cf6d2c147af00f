internal import Glibc

/// A place in pieces of memory that are to be sent one behind the other.
struct PieceCursor {
    private let pieces: UnsafeMutableBufferPointer<iovec>
    private var index = 0
    private var offset = 0

    init(_ pieces: UnsafeMutableBufferPointer<iovec>) {
        self.pieces = pieces
        skipEmpty()
    }

    var isAtEnd: Bool { index == pieces.count }

    /// Calls `body` with the next bytes in one piece: `most` of them, or all that are left. Copies only where they lie
    /// apart. The same place gives the same bytes again, and never fewer.
    func withNext<R>(_ most: Int, _ body: (UnsafeRawBufferPointer) -> R) -> R {
        guard !isAtEnd else { return body(UnsafeRawBufferPointer(start: nil, count: 0)) }
        let first = rest(of: index, from: offset)
        if first.count >= most || index + 1 == pieces.count {
            return body(UnsafeRawBufferPointer(rebasing: first.prefix(most)))
        }
        return withUnsafeTemporaryAllocation(byteCount: most, alignment: 1) { buffer in
            var count = 0
            var start = offset
            for piece in index..<pieces.count where count < most {
                let source = rest(of: piece, from: start).prefix(most - count)
                start = 0
                UnsafeMutableRawBufferPointer(rebasing: buffer[count...]).copyMemory(
                    from: UnsafeRawBufferPointer(rebasing: source))
                count += source.count
            }
            return body(UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(buffer).prefix(count)))
        }
    }

    mutating func advance(by count: Int) {
        var left = count
        while left > 0, !isAtEnd {
            let here = pieces[index].iov_len - offset
            if left < here {
                offset += left
                return
            }
            left -= here
            index += 1
            offset = 0
        }
        skipEmpty()
    }

    private mutating func skipEmpty() {
        while index < pieces.count, pieces[index].iov_len == offset {
            index += 1
            offset = 0
        }
    }

    private func rest(of piece: Int, from offset: Int) -> UnsafeRawBufferPointer {
        let whole = UnsafeRawBufferPointer(start: pieces[piece].iov_base, count: pieces[piece].iov_len)
        return UnsafeRawBufferPointer(rebasing: whole[offset...])
    }
}
