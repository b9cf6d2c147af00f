import Glibc

/// The files of the repository, found from the path of this file.
enum SourceFiles {
    struct File {
        /// The path from the repository's root.
        let path: String
        let lines: [String]

        /// The target that the file belongs to.
        var room: String { path.split(separator: "/").dropFirst().first.map(String.init) ?? "" }
    }

    /// The Swift files below a folder of the repository.
    static func swift(below folder: String) -> [File] {
        paths(below: folder).filter { $0.hasSuffix(".swift") }.sorted().map(file)
    }

    /// The Python files below a folder of the repository.
    static func python(below folder: String) -> [File] {
        paths(below: folder).filter { $0.hasSuffix(".py") }.sorted().map(file)
    }

    /// The files below a folder of the repository whose first line names a shell.
    static func shellScripts(below folder: String) -> [File] {
        paths(below: folder).sorted().map(file).filter { file in
            guard let first = file.lines.first, first.hasPrefix("#!") else { return false }
            return first.hasSuffix("sh") || first.contains("sh ")
        }
    }

    /// A file of the repository as lines.
    static func file(_ path: String) -> File {
        File(path: path, lines: text(path).split(separator: "\n", omittingEmptySubsequences: false).map(String.init))
    }

    /// The paths of the Markdown pages below a folder of the repository.
    static func pages(below folder: String) -> [String] {
        paths(below: folder).filter { $0.hasSuffix(".md") }.sorted()
    }

    /// The names of the direct subfolders.
    static func folders(in folder: String) -> [String] {
        names(in: root + "/" + folder).filter { isFolder(root + "/" + folder + "/" + $0) }.sorted()
    }

    private static let root: String = {
        // …/Tests/HouseTests/SourceFiles.swift
        #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(3).joined(separator: "/")
    }()

    /// The paths of the files below a folder of the repository, without hidden ones.
    static func paths(below folder: String) -> [String] {
        names(in: root + "/" + folder).flatMap { name -> [String] in
            let path = folder + "/" + name
            return isFolder(root + "/" + path) ? paths(below: path) : [path]
        }
    }

    private static func names(in folder: String) -> [String] {
        guard let directory = opendir(folder) else { return [] }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                pointer.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if !name.hasPrefix(".") { names.append(name) }
        }
        return names
    }

    private static func isFolder(_ path: String) -> Bool {
        var information = stat()
        return stat(path, &information) == 0 && information.st_mode & S_IFMT == S_IFDIR
    }

    static func text(_ path: String) -> String {
        let descriptor = open(root + "/" + path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return "" }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 65_536)
        while case let count = read(descriptor, &piece, piece.count), count > 0 { bytes += piece[..<count] }
        return String(decoding: bytes, as: UTF8.self)
    }
    /// Writes a page that is printed from the sources.
    static func write(_ text: String, to path: String) {
        guard let file = fopen(root + "/" + path, "w") else { return }
        fputs(text, file)
        fclose(file)
    }
}
