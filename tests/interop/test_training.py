# SPDX-License-Identifier: Apache-2.0
"""The training of the example's networks against PyTorch: the gradients of one step, and the parameters after several."""
import json
import re
import sys

try:
    import numpy as np
    import torch
except ImportError as missing:
    print(f"ok 1 - training # skip {missing}: install python3-torch\n1..1")
    sys.exit(0)

from tap import main, read, sh, test, write

RATES = {"cnn": 0.05, "autoencoder": 1.0}
BATCH = {"cnn": 200, "autoencoder": 128}


def make_network(name):
    """The network in f64, and its parameters by their names in the manifest."""
    nn = torch.nn
    if name == "cnn":
        channels, modules = [1, 32, 32, 64], []
        for i in range(3):
            modules += [nn.Conv2d(channels[i], channels[i + 1], 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        modules += [nn.Flatten(), nn.Linear(1024, 10)]
        layers = [0, 2, 4, 7]
    else:
        sizes, modules = [784, 1000, 500, 250, 30, 250, 500, 1000, 784], []
        for i in range(8):
            modules += [nn.Linear(sizes[i], sizes[i + 1]), nn.Sigmoid() if i == 7 else nn.Identity() if i == 3 else nn.Tanh()]
        layers = list(range(8))
    network = nn.Sequential(*modules).double()
    named = {}
    for layer, module in zip(layers, [m for m in network if hasattr(m, "weight")]):
        named[f"w{layer}"], named[f"b{layer}"] = module.weight, module.bias
    with torch.no_grad():
        for key, tensor in named.items():
            tensor.copy_(like(np.fromfile(f"{key}.f32", "<f4"), tensor))
    return network, named


def like(values, tensor):
    """What the library has: weights of dense layers stand the other way round."""
    if tensor.dim() == 2:
        return torch.tensor(values.reshape(tensor.shape[1], tensor.shape[0]).T.astype("f8"))
    return torch.tensor(values.reshape(tensor.shape).astype("f8"))


def make_pictures(count):
    rng = np.random.default_rng(5)
    coarse = rng.integers(0, 256, (count, 7, 7)).astype("u1")
    images, labels = coarse.repeat(4, 1).repeat(4, 2), rng.integers(0, 10, count).astype("u1")
    for part in ("train", "test"):
        write(f"{part}-images", bytes(16) + images.tobytes())
        write(f"{part}-labels", bytes(8) + labels.tobytes())
    return torch.tensor(images / 255.0), torch.tensor(labels.astype("i8"))


def find_loss(name, network, images, labels):
    if name == "cnn":
        return torch.nn.functional.cross_entropy(network(images[:, None]), labels)
    flat = images.reshape(len(images), -1)
    return torch.nn.functional.mse_loss(network(flat), flat)


def train(name, steps, level):
    """Runs the example's job, with the gradients of the first step among its outputs, into the folder `out`."""
    job = json.loads(sh("fashion-train", name, level, str(steps)))
    for segment in job["segments"]:
        if re.fullmatch(r"[wb]g\d\.0", segment["segment_id"]):
            segment.update(direction="OUTPUT", data_location_client=segment["segment_id"])
    write("job.json", json.dumps(job).encode())
    sh("sgpu-seal", "keygen", "-o", "key.jwk")
    sealed = sh("sgpu-seal", "seal", "-k", "key.jwk", data=sh("sgpu-manifest", "pack", "job.json"))
    sh("sgpu-seal", "open", "-k", "key.jwk", "-C", "out", data=sh("sgpu-run", "-k", "key.jwk", data=sealed))


def check_close(what, got, wanted, tolerance):
    """Relative to the largest element: sums of terms that cancel have errors of the size of the terms."""
    worst, size = float((got - wanted).abs().max()), float(wanted.abs().max())
    assert size > 0 and worst <= tolerance * size, f"{what}: off by {worst} of {size}"


def compare(name, steps, level):
    images, labels = make_pictures(max(400, steps * BATCH[name]))
    train(name, steps, level)
    network, named = make_network(name)
    optimizer = torch.optim.SGD(network.parameters(), RATES[name], momentum=0.9)
    for step in range(steps):
        batch = slice(step * BATCH[name], (step + 1) * BATCH[name])
        optimizer.zero_grad()
        loss = find_loss(name, network, images[batch], labels[batch])
        loss.backward()
        if step == 0:
            got = np.fromfile("out/before.f32", "<f4")
            assert abs(got[0] - float(loss)) <= 1e-6 * float(loss), f"loss {got[0]}, not {float(loss)}"
            for key, tensor in named.items():
                gradient = np.frombuffer(read(f"out/{key[0]}g{key[1]}.0"), "<f4")
                check_close(f"gradient of {key}", like(gradient, tensor), tensor.grad, 2e-5)
        optimizer.step()
    for key, tensor in named.items():
        check_close(key, like(np.fromfile(f"out/{key}.f32", "<f4"), tensor), tensor.detach(), 2e-5)


@test
def gradients_of_the_convolutional_network():
    "all gradients of a step of the convolutional network are PyTorch's"
    compare("cnn", 1, "HIGH")


@test
def gradients_of_the_autoencoder():
    "all gradients of a step of the autoencoder are PyTorch's"
    compare("autoencoder", 1, "HIGH")


@test
def steps_with_momentum():
    "four steps with momentum end with PyTorch's parameters"
    compare("autoencoder", 4, "LOW")


main()
