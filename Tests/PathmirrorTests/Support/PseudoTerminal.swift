import Glibc
import Testing

@testable import pathmirror

/// A terminal as a command sees it, and the end at which the test types.
final class PseudoTerminal {
    /// The command's end.
    let descriptor: Int32
    private let person: Int32

    /// TIOCSPTLCK and TIOCGPTN, whose macros Swift can't import.
    private static let setLock: UInt = 0x4004_5431
    private static let getNumber: UInt = 0x8004_5430

    init() throws {
        person = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)
        var (lock, number): (Int32, Int32) = (0, 0)
        try #require(
            person >= 0 && ioctl(person, Self.setLock, &lock) == 0 && ioctl(person, Self.getNumber, &number) == 0)
        descriptor = open("/dev/pts/\(number)", O_RDWR | O_NOCTTY | O_CLOEXEC)
        try #require(descriptor >= 0)
        // Line ends are not converted, and input is not echoed.
        var mode = termios()
        tcgetattr(descriptor, &mode)
        mode.c_oflag &= ~tcflag_t(OPOST)
        mode.c_lflag &= ~tcflag_t(ECHO)
        tcsetattr(descriptor, TCSANOW, &mode)
    }

    deinit {
        close(descriptor)
        close(person)
    }

    func type(_ text: String) { Console.writeBytes(Array(text.utf8), to: person) }

    /// The text on the screen so far.
    var shown: String {
        var all: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 4_096)
        var waiting = pollfd(fd: person, events: Int16(POLLIN), revents: 0)
        while poll(&waiting, 1, 0) > 0, case let count = read(person, &piece, piece.count), count > 0 {
            all += piece[..<count]
        }
        return String(decoding: all, as: UTF8.self)
    }
}
