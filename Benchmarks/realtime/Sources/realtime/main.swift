import Dispatch
import Foundation
import PathmirrorClient
import Synchronization

// What one app costs its machine. It prints a line of JSON for each thing that it has seen, and ends with its input.
//
//   realtime URL FOLDER listen PATH KIND    counts events of KIND (value or child) until there are so many as a line of its input says;
//                                           goes offline and online as its input says
//   realtime URL FOLDER load PATH           keeps the path on disk, as apps with persistence do
//   realtime URL FOLDER cold PATH           finds it there, without a connection

let arguments = CommandLine.arguments
guard arguments.count >= 5 else { fatalError("realtime URL FOLDER listen|load|cold PATH [value|child]") }
let start = DispatchTime.now().uptimeNanoseconds
let app = PathmirrorApp.configure(url: arguments[1], directory: URL(fileURLWithPath: arguments[2]))
let database = Database.database(app: app)
database.callbackQueue = DispatchQueue(label: "events")

func processorMicros() -> Int64 {
    var usage = rusage()
    getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
    let seconds = Int64(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
    return seconds * 1_000_000 + Int64(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec)
}

func residentBytes() -> Int64 {
    let text = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8)) ?? ""
    return (text.split(separator: " ").dropFirst().first.flatMap { Int64($0) } ?? 0) * Int64(getpagesize())
}

func say(_ events: Int, _ nanoseconds: UInt64) {
    let line =
        "{\"events\":\(events),\"micros\":\(nanoseconds / 1_000),\"processor_micros\":\(processorMicros()),"
        + "\"resident\":\(residentBytes())}\n"
    FileHandle.standardOutput.write(Data(line.utf8))
}

/// Counts events, and says so when a wanted number is reached.
final class Counter: Sendable {
    private let state = Mutex((count: 0, wanted: Int.max))

    func add() {
        let reached = state.withLock { state -> Int? in
            state.count += 1
            return state.count == state.wanted ? state.count : nil
        }
        if let reached { say(reached, DispatchTime.now().uptimeNanoseconds - start) }
    }

    func want(_ count: Int) {
        let reached = state.withLock { state -> Int? in
            state.wanted = count
            return state.count >= count ? state.count : nil
        }
        if let reached { say(reached, DispatchTime.now().uptimeNanoseconds - start) }
    }
}

let counter = Counter()
switch arguments[3] {
case "listen":
    let reference = database.reference(withPath: arguments[4])
    if arguments[5] == "value" {
        _ = reference.observe(.value) { snapshot in if snapshot.exists() { counter.add() } }
    } else {
        _ = reference.observe(.childAdded) { _ in counter.add() }
        _ = reference.observe(.childChanged) { _ in counter.add() }
    }
    while let line = readLine() {
        switch line {
        case "offline": database.goOffline()
        case "online": database.goOnline()
        default: if let count = Int(line) { counter.want(count) }
        }
    }
case "load", "cold":
    database.isPersistenceEnabled = true
    database.persistenceCacheSizeBytes = 100 << 20
    if arguments[3] == "cold" { database.goOffline() }
    let reference = database.reference(withPath: arguments[4])
    _ = reference.observe(.value) { snapshot in
        say(Int(snapshot.childrenCount), DispatchTime.now().uptimeNanoseconds - start)
    }
    while readLine() != nil {}
    await app.delete()
default: fatalError("what is \(arguments[3])?")
}
