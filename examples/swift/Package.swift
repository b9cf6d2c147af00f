// swift-tools-version: 6.2
import PackageDescription

// In a package of your own: .package(url: "https://…/pathmirror.git", from: "0.2.0")
let package = Package(
    name: "examples",
    dependencies: [.package(name: "pathmirror", path: "../..")],
    targets: ["first", "blog", "presence", "worker", "everything"].map {
        .executableTarget(name: $0, dependencies: [.product(name: "PathmirrorClient", package: "pathmirror")])
    }
)
