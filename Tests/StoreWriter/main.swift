import ClientCore
import Glibc
import PathmirrorClient
import Tree

// Writes to a store until it is killed: `store-writer FILE`. Each turn saves one to three writes, removes some, changes
// server data, and commits. It then prints the changes that a test may rely on from now on, `saved ID` and `removed
// ID`, one per line, in one system call. Before a turn that removes a kept write it prints `removing ID`.

func say(_ text: String) {
    var text = text
    text.withUTF8 { _ = Glibc.write(1, $0.baseAddress, $0.count) }
}

guard CommandLine.arguments.count == 2,
    let store = try? SQLiteClientStore(path: CommandLine.arguments[1], report: { say("notice \($0)\n") })
else { exit(2) }

var last = store.pendingWrites().last?.id.rawValue ?? 0
var waiting = store.pendingWrites().map(\.id)
say("open \(waiting.count)\n")
while true {
    var lines = ""
    for _ in 0..<Int.random(in: 1...3) {
        last += 1
        let id = WriteID(rawValue: last)
        let text = String(repeating: "\(last),", count: Int.random(in: 1...200))
        store.save(
            PendingWrite(id: id, path: Path(splitting: "written/\(last)"), content: .overwrite(.string(text))))
        waiting.append(id)
        lines += "saved \(last)\n"
    }
    while waiting.count > 50 {
        let id = waiting.removeFirst()
        store.removeWrite(id)
        lines += "removed \(id.rawValue)\n"
        say("removing \(id.rawValue)\n")
    }
    // Both halves belong to one turn, so a reader never sees only one of them.
    store.setServerData(.int(last), at: Path(splitting: "server/first"))
    store.setServerData(.int(last), at: Path(splitting: "server/second/\(last % 100)"))
    store.setServerData(.int(last), at: Path(splitting: "server/third"))
    store.commit()
    say(lines)
}
