"""A minimal Debian in a folder, with the machine's own package sources."""

import shutil
import subprocess
from pathlib import Path

SOURCES = ["/etc/apt/sources.list", *map(str, Path("/etc/apt/sources.list.d").glob("*.list")),
           *map(str, Path("/etc/apt/sources.list.d").glob("*.sources"))]


def codename() -> str:
    facts = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    return facts["VERSION_CODENAME"].strip('"')


class CleanRoot:
    def __init__(self, folder: Path):
        self.folder = folder
        sources = [source for source in SOURCES if Path(source).exists()]
        subprocess.run(["mmdebstrap", "--quiet", "--variant=apt", codename(), folder, *sources], check=True, timeout=600)
        shutil.copy("/etc/resolv.conf", folder / "etc/resolv.conf")
        # Starts no services, because there is no init.
        policy = folder / "usr/sbin/policy-rc.d"
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
        self.run("apt-get", "-qq", "update")
        subprocess.run(["mount", "-t", "proc", "proc", folder / "proc"], check=True)

    def unmount(self):
        subprocess.run(["umount", self.folder / "proc"], check=True)

    def run(self, *words) -> str:
        """The output of a command in the root, errors included; the test fails with the command."""
        done = subprocess.run(["chroot", self.folder, "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8",
                               "DEBIAN_FRONTEND=noninteractive", *words],
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
        assert done.returncode == 0, f"{words} failed ({done.returncode}):\n{done.stdout}"
        return done.stdout

    def install(self, package: Path) -> str:
        shutil.copy(package, self.folder / "tmp")
        try:
            return self.run("apt-get", "install", "--yes", "--no-install-recommends", "-o", "Dpkg::Use-Pty=0", f"/tmp/{package.name}")
        finally:
            (self.folder / "tmp" / package.name).unlink()

    def path(self, name: str) -> Path:
        return self.folder / name.lstrip("/")
