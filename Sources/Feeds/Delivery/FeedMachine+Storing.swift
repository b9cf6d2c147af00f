/// Room for messages that are stored: dead letters, and what is set aside for them.
///
/// Nothing is dropped where there is none. A message that failed for the last time is tried again, with the longest pause; what
/// would be set aside waits in memory, and the reader with it once the window is full.
extension FeedMachine {
    /// What the database stores of a feed.
    struct Stored: Sendable, Equatable {
        var count: Int64 = 0
        var bytes: Int64 = 0
    }

    var mayStore: Bool { stored.count < settings.mostStored && stored.bytes < settings.mostStoredBytes }

    func noteStored(_ slot: Slot) {
        stored.count += 1
        stored.bytes += Int64(min(slot.bytes, StoredMessage.maxBytes))
    }

    /// What the database stores by now, after an administrator has changed some of it. To be called after `lettersChanged`.
    func storedChanged(_ known: Stored) {
        stored = known
        // What is still to be written comes on top.
        for case .put(let letter) in lettersUnderWay.merging(letters, uniquingKeysWith: { $1 }).values
        where letter.state == .dead || letter.state == .blocked {
            stored.count += 1
            stored.bytes += Int64(min(letter.message?.estimatedBytes ?? 0, StoredMessage.maxBytes))
        }
        if mayStore { isShortOfRoom = false }
        placeAgain(unstored.takeAll())
    }
}
