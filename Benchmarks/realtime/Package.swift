// swift-tools-version: 6.2
import PackageDescription

// A package of its own, so that the client library is built as in a user's app: with none of the project's flags.
let package = Package(
    name: "realtime",
    dependencies: [.package(name: "pathmirror", path: "../..")],
    targets: [
        .executableTarget(name: "realtime", dependencies: [.product(name: "PathmirrorClient", package: "pathmirror")])
    ]
)
