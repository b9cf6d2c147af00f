import Glibc

/// Standard input, output and error.
enum StandardDescriptors {
    /// Takes the place of those that the program was started without, so that no file or connection gets their numbers and
    /// the results that go there. Reading and writing what has taken their place fails.
    static func fill() {
        for descriptor in [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO] where fcntl(descriptor, F_GETFD) < 0 {
            // The lowest number that is free: this one.
            _ = open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY)
        }
    }
}
