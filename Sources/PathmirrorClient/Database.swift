internal import ClientCore
