import Glibc

/// The program: finds the command, runs it, and returns its exit code: 0 success, 1 failure, 2 usage.
@main
struct Pathmirror {
    static func main() {
        StandardDescriptors.fill()
        ProcessSignals.block()
        OutOfMemory.install()
        let arguments = Array(CommandLine.arguments.dropFirst())
        let environment = Environment.current
        exit(Commands.run(arguments, Console(environment: environment), environment))
    }
}
