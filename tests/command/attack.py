import ctypes, errno, json, os, signal, socket, struct

libc = ctypes.CDLL(None, use_errno=True)
worked = []

def attempt(what, act):
    try:
        if act() is not False:
            worked.append(what)
    except (OSError, ImportError, AttributeError):
        pass

# What would harm the machine that has no sandbox.
def inside(what, act):
    if FACTS["inside"]:
        attempt(what, act)

def call(*args):
    done = libc.syscall(*args)
    if done == -1:
        raise OSError(ctypes.get_errno(), "syscall")
    return done

def clone():
    if call(56, 0x10000000 | 17, 0, 0, 0, 0) == 0:
        os._exit(0)

def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.settimeout(2)
        s.connect(address)

def read(path):
    with open(path, "rb") as f:
        f.read(1)

def write(path):
    with open(path, "wb") as f:
        f.write(b"x")

def fork():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)

def run():
    import subprocess
    subprocess.run(["/usr/bin/env", "true"], check=True, capture_output=True)

sidecar = FACTS["sidecar"]
for port in FACTS["ports"]:
    attempt("tcp %d" % port, lambda: connect(socket.AF_INET, ("127.0.0.1", port)))
attempt("tcp6", lambda: connect(socket.AF_INET6, ("::1", FACTS["ports"][0])))
inside("metadata", lambda: connect(socket.AF_INET, ("169.254.169.254", 80)))
for path in FACTS["sockets"]:
    attempt("unix " + path, lambda: connect(socket.AF_UNIX, path))
attempt("unix dgram", lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).close())
def by_pair():
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"x", FACTS["dgram"])

attempt("dgram by a pair", by_pair)
attempt("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close())
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).close())
attempt("netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close())
attempt("vsock", lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close())
attempt("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close())
for path in FACTS["files"]:
    attempt("read " + path, lambda: read(path))
for name in ["environ", "mem", "maps", "status", "root/etc/passwd", "cwd/wicketgate.yaml"]:
    attempt("proc " + name, lambda: read("/proc/%d/%s" % (sidecar, name)))
inside("proc kcore", lambda: read("/proc/kcore"))
attempt("write " + FACTS["made"], lambda: write(FACTS["made"]))
for path in ["/tmp/wicketgate-made", "/var/tmp/wicketgate-made", "/dev/shm/wicketgate-made", "/usr/made", "/made", "made"]:
    inside("write " + path, lambda: write(path))
attempt("truncate", lambda: os.truncate(FACTS["files"][0], 0))
attempt("mkdir", lambda: os.mkdir(FACTS["made"] + ".d"))
attempt("link", lambda: os.symlink("/etc/passwd", FACTS["made"] + ".l"))
# Of the same user as this code, where that is not the machine's own.
def kill_by_pipe(victim):
    import fcntl
    reads, writes = os.pipe()
    fcntl.fcntl(reads, fcntl.F_SETOWN, victim)
    fcntl.fcntl(reads, 10, signal.SIGKILL)
    fcntl.fcntl(reads, fcntl.F_SETFL, fcntl.fcntl(reads, fcntl.F_GETFL) | os.O_ASYNC)
    os.write(writes, b"x")

def owned(request):
    import fcntl
    one, other = socket.socketpair()
    fcntl.ioctl(one, request, struct.pack("i", FACTS["victim"]))

attempt("kill by a pipe", lambda: kill_by_pipe(FACTS["victim"]))
attempt("ioctl FIOSETOWN", lambda: owned(0x8901))
attempt("ioctl SIOCSPGRP", lambda: owned(0x8902))
attempt("mode", lambda: os.chmod(FACTS["kept"], 0o666))
attempt("owner", lambda: os.chown(FACTS["kept"], os.getuid(), os.getgid()))
attempt("times", lambda: os.utime(FACTS["kept"], (1, 1)))
attempt("signal", lambda: os.kill(sidecar, 0))
attempt("signal parent", lambda: os.kill(os.getppid(), 0) if os.getppid() > 0 else False)
inside("signal group", lambda: os.killpg(sidecar, 0))
attempt("pidfd", lambda: os.close(os.pidfd_open(sidecar)))
attempt("rlimit", lambda: __import__("resource").prlimit(sidecar, __import__("resource").RLIMIT_CORE))
inside("priority", lambda: os.setpriority(os.PRIO_PROCESS, sidecar, 5))
attempt("fork", fork)
attempt("exec", run)
inside("session", os.setsid)
inside("group", lambda: os.setpgid(0, 0))
inside("chroot", lambda: os.chroot("/usr"))
inside("setuid", lambda: os.setuid(0) if os.getuid() != 0 else False)
attempt("root", lambda: os.getuid() == 0 or os.geteuid() == 0)
attempt("memfd", lambda: os.close(os.memfd_create("x")))
inside("ptrace", lambda: call(101, 16, sidecar, 0, 0))
inside("vm_read", lambda: call(310, sidecar, 0, 0, 0, 0, 0))
inside("unshare", lambda: call(272, 0x10000000))
inside("setns", lambda: call(308, 0, 0))
inside("mount", lambda: call(165, b"none", b"/", b"tmpfs", 0, 0))
inside("bpf", lambda: call(321, 0, 0, 0))
inside("keyctl", lambda: call(250, 0, -3, 0))
inside("io_uring", lambda: call(425, 1, ctypes.create_string_buffer(120)))
inside("userfaultfd", lambda: call(323, 1))
inside("perf", lambda: call(298, 0, 0, -1, -1, 0))
inside("personality", lambda: call(135, 0x0400000))
inside("open_by_handle", lambda: call(304, -100, ctypes.create_string_buffer(64), 0))
inside("clone newuser", clone)
inside("fsopen", lambda: call(430, b"tmpfs", 0))
inside("quota of another abi", lambda: call(0x40000000 + 41, 2, 1, 0))
inside("tty", lambda: __import__("fcntl").ioctl(0, 0x5412, b"x"))
print(json.dumps(worked))
