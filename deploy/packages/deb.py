"""A Debian package: the programs, their manual pages and completions. It starts no service and makes no user."""

import hashlib

from . import ABOUT, gzipped, libraries, tar

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
COMPLETIONS = {"bash": "usr/share/bash-completion/completions/{}", "zsh": "usr/share/zsh/vendor-completions/_{}",
               "fish": "usr/share/fish/vendor_completions.d/{}.fish"}


def make(version, machine, programs, licence, epoch, extras):
    """programs: {name: content}; extras: manual pages (man/man1/NAME.1) and completions, as the program makes them. Gives (file name, content)."""
    needs = libraries.glibc(programs.values())
    depends = f"Depends: libc6 (>= {needs[0]}.{needs[1]})\n" if needs else ""
    files = {f"usr/bin/{name}": (content, 0o755) for name, content in programs.items()}
    files["usr/share/doc/wicketgate/copyright"] = (licence, 0o644)
    for name, content in extras.items():
        path = placed(name)
        files[path] = (gzipped(content) if path.endswith(".gz") else content, 0o644)
    folders = {above: (0o755, 0) for path in files for above in parents(path)}
    data = gzipped(tar({f"./{path}": file for path, file in files.items()}, epoch, {f"./{path}": one for path, one in folders.items()}))
    size = sum(len(content) for content, _ in files.values()) // 1024
    architecture = ARCHITECTURES[machine]
    control = (f"Package: wicketgate\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: Wicketgate <release@wicketgate.dev>\n"
               f"Installed-Size: {size}\n{depends}Section: admin\nPriority: optional\nDescription: {ABOUT}\n")
    sums = "".join(f"{hashlib.md5(content).hexdigest()}  {path}\n" for path, (content, _) in sorted(files.items()))
    head = gzipped(tar({"./control": (control.encode(), 0o644), "./md5sums": (sums.encode(), 0o644)}, epoch))
    members = [("debian-binary", b"2.0\n"), ("control.tar.gz", head), ("data.tar.gz", data)]
    return f"wicketgate_{version}_{architecture}.deb", b"!<arch>\n" + b"".join(member(name, content, epoch) for name, content in members)


def placed(name):
    """Where Debian looks for a manual page or a completion."""
    if name.startswith("man/"):
        return f"usr/share/{name}.gz"
    shell, program = completion(name.removeprefix("completions/"))
    return COMPLETIONS[shell].format(program)


def completion(file):
    """The shell and the program of a completion, by the name of its file."""
    if file.endswith(".fish"):
        return "fish", file.removesuffix(".fish")
    if file.startswith("_"):
        return "zsh", file[1:]
    return "bash", file.removesuffix(".bash")


def parents(path):
    parts = path.split("/")[:-1]
    return ["/".join(parts[:n]) for n in range(1, len(parts) + 1)]


def member(name, content, epoch):
    """One file of an `ar` archive."""
    head = f"{name:<16}{epoch:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode()
    return head + content + (b"\n" if len(content) % 2 else b"")
