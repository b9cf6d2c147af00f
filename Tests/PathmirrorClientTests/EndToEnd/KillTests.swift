import Foundation
import Glibc
import TestSupport
import Testing

@testable import PathmirrorClient

extension EndToEnd {
    /// Checks apps that are killed while they write. `PATHMIRROR_KILL_ROUNDS` sets the number of rounds for a campaign.
    @Suite struct Kills {
        /// An app is killed at random moments while it writes, with and without a connection. Each write whose call has
        /// returned is at the server in the end, the last one last; none was executed twice, including increments.
        @Test func eachWriteIsDoneOnce() async throws {
            let ground = try Ground()
            let rounds = ProcessInfo.processInfo.environment["PATHMIRROR_KILL_ROUNDS"].flatMap { Int($0) } ?? 5
            let folder = TemporaryFolder.path("client-kill")
            defer { TemporaryFolder.remove(folder) }
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            var random = SeededGenerator(seed: UInt64(rounds))
            var (next, said) = (1, 0)
            for round in 0..<rounds {
                let log = "\(folder)/log\(round)"
                let mode = random.oneIn(2) ? ["offline"] : []
                let process = try TestProcess(
                    [Self.program, ground.gateway.url, folder + "/data", ground.path, String(next)] + mode, log: log)
                try await until("it has begun") { Self.numbers(log).count > 1 }
                try await Task.sleep(for: .microseconds(random.below(40_000)))
                process.kill()
                said = try #require(Self.numbers(log).last)
                // The next write may also have been saved without being reported.
                next = said + 2
            }
            let log = folder + "/finish"
            let process = try TestProcess(
                [Self.program, ground.gateway.url, folder + "/data", ground.path, "0", "finish"], log: log)
            try await until("all is sent") {
                (try? String(contentsOfFile: log, encoding: .utf8))?.contains("sent") == true
            }
            process.kill()
            let all = try await ground.client().getData()
            let last = try #require(all.childSnapshot(forPath: "last").value as? Int)
            #expect(last == said || last == said + 1)
            let counted = all.childSnapshot(forPath: "counted").childrenCount
            #expect(all.childSnapshot(forPath: "sum").value as? Int == Int(counted))
            for round in 0..<rounds {
                for number in Self.numbers("\(folder)/log\(round)") {
                    #expect(all.childSnapshot(forPath: "\(number)/n").value as? Int == number)
                }
            }
        }

        private static func numbers(_ log: String) -> [Int] {
            let text = (try? String(contentsOfFile: log, encoding: .utf8)) ?? ""
            // An incomplete line was not reported.
            return text.split(separator: "\n", omittingEmptySubsequences: false).dropLast().compactMap { Int($0) }
        }

        private static var program: String {
            let path = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
            return URL(fileURLWithPath: path).deletingLastPathComponent().appending(component: "client-writer").path
        }
    }
}
