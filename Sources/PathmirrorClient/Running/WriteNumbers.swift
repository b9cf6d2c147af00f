internal import ClientCore

/// Numbers of writes, ascending across restarts as long as writes of earlier runs are known.
final class WriteNumbers {
    private var last: Int64 = 0

    func next() -> WriteID {
        last += 1
        return WriteID(rawValue: last)
    }

    /// Numbers from now on are greater.
    func skip(to id: WriteID) { last = max(last, id.rawValue) }
}
