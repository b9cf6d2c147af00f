// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "blog",
    dependencies: [.package(name: "pathmirror", path: "../..")],
    targets: [
        .executableTarget(name: "blog", dependencies: [.product(name: "PathmirrorClient", package: "pathmirror")])
    ],
    swiftLanguageModes: [.v6]
)
