import Runtime

/// Does the same with several things at the same time, where each is waited for: together it takes as long as the longest of them.
enum SideBySide {
    /// Returns when all is done. The first is done on the caller's thread, each other one on a thread of its own.
    static func run<Item: Sendable>(_ items: [Item], _ work: @escaping @Sendable (Item) -> Void) {
        guard let first = items.first else { return }
        let others = items.dropFirst().map { item in
            (item: item, thread: Thread(name: "side-by-side", isVital: false) { work(item) })
        }
        work(first)
        for other in others {
            // Where the system makes no thread, it is done here.
            if other.thread.isStarted { other.thread.join() } else { work(other.item) }
        }
    }
}
