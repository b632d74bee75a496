"""Images and charts as OCI archives (image-spec 1.1), made without a container engine: `skopeo copy oci-archive:FILE …` loads and pushes them."""

import hashlib
import json
import pathlib
import time

from . import gzipped, libraries, tar

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
CERTIFICATES = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
# The user of the image, and what is the user's to write.
USER = 65532
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
HELM = "application/vnd.cncf.helm"


class Layout:
    """An image layout: blobs by their digests, and an index."""

    def __init__(self):
        self.files = {"oci-layout": (b'{"imageLayoutVersion":"1.0.0"}', 0o644)}

    def blob(self, media, content):
        digest = hashlib.sha256(content).hexdigest()
        self.files[f"blobs/sha256/{digest}"] = (content, 0o644)
        return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(content)}

    def archive(self, manifest, name, epoch, platform=None):
        entry = self.blob(MANIFEST, document(manifest)) | {"annotations": {"org.opencontainers.image.ref.name": name}}
        if platform:
            entry["platform"] = platform
        index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [entry]}
        self.files["index.json"] = (document(index), 0o644)
        return tar(self.files, epoch, {"blobs": (0o755, 0), "blobs/sha256": (0o755, 0)})


def document(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def image(version, machine, programs, paths, epoch):
    """The image of the gate: the C library and the public authorities of this machine, and the programs. paths: {name: file}."""
    base = {path: (pathlib.Path(file).read_bytes(), 0o755) for name in paths for path, file in libraries.linked(paths[name]).items()}
    if CERTIFICATES.exists():
        base[str(CERTIFICATES).lstrip("/")] = (CERTIFICATES.read_bytes(), 0o644)
    base["etc/passwd"] = (f"root:x:0:0:root:/:/sbin/nologin\nnonroot:x:{USER}:{USER}:nonroot:/home/nonroot:/sbin/nologin\n".encode(), 0o644)
    base["etc/group"] = (f"root:x:0:\nnonroot:x:{USER}:\n".encode(), 0o644)
    own = {"tmp": (0o1777, 0), "home/nonroot": (0o700, USER), "etc/wicketgate": (0o755, 0), "run/secrets/wicketgate": (0o755, 0),
           "run/wicketgate": (0o755, USER), "var/lib/wicketgate": (0o755, USER)}
    layers = [tar(base, epoch), tar({name: (content, 0o755) for name, content in programs.items()}, epoch, own)]
    layout, architecture = Layout(), ARCHITECTURES[machine]
    config = {
        "architecture": architecture, "os": "linux", "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch)),
        "config": {"User": f"{USER}:{USER}", "Entrypoint": ["/wicketgate"], "Env": ["WICKETGATE__STATE=/var/lib/wicketgate"],
                   "Labels": {"org.opencontainers.image.title": "wicketgate", "org.opencontainers.image.version": version,
                              "org.opencontainers.image.licenses": "Apache-2.0"}},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]},
    }
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": layout.blob("application/vnd.oci.image.config.v1+json", document(config)),
                "layers": [layout.blob("application/vnd.oci.image.layer.v1.tar+gzip", gzipped(layer)) for layer in layers]}
    name = f"wicketgate-{version}-linux-{architecture}.oci.tar"
    # What loads the archive calls the image so.
    return name, layout.archive(manifest, f"wicketgate:{version}", epoch, {"architecture": architecture, "os": "linux"})


def chart(version, folder, meta, epoch):
    """The chart as Helm packs it, and the same as an OCI archive. meta: the content of Chart.yaml as JSON."""
    files = {f"wicketgate/{path.relative_to(folder)}": (path.read_bytes(), 0o644) for path in sorted(folder.rglob("*")) if path.is_file()}
    packed = gzipped(tar(files, epoch))
    layout = Layout()
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": layout.blob(f"{HELM}.config.v1+json", document(meta)),
                "layers": [layout.blob(f"{HELM}.chart.content.v1.tar+gzip", packed)]}
    name = f"wicketgate-chart-{version}"
    return {f"{name}.tgz": packed, f"{name}.oci.tar": layout.archive(manifest, version, epoch)}
