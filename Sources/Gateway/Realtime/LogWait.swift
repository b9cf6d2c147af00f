import HTTPServer
import Tree

/// A wait of a realtime client for an entry of the log, while it is under way.
struct LogWait {
    let seq: Int64
    /// The place by which the client shows that it may know of the log, if it names one.
    let path: Path?
    /// Gives it up when the entry is too long in coming.
    let timer: LoopTimer
}
