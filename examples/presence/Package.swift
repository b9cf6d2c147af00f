// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "presence",
    dependencies: [.package(name: "pathmirror", path: "../..")],
    targets: [
        .executableTarget(name: "presence", dependencies: [.product(name: "PathmirrorClient", package: "pathmirror")])
    ],
    swiftLanguageModes: [.v6]
)
