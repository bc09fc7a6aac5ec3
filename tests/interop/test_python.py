# SPDX-License-Identifier: Apache-2.0
"""The Python package against NumPy, nibabel and scikit-learn, and against programs that die or say nonsense."""
import glob
import os
import pickle
import signal
import statistics
import subprocess
import sys
import threading
import time
import warnings

import numpy as np

from tap import TOP, main, read, sh, test, write

sys.path.insert(0, os.path.join(TOP, "python"))
import sgpu  # noqa: E402
from sgpu._pipe import pipe_for  # noqa: E402

warnings.simplefilter("error")
signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it would be ignored
BIN = os.path.join(os.environ["SGPU_BUILD"], "bin")
# How a program in place of `sgpu` begins, which has the tables of the real one.
TABLES = f"""import os, sys
if sys.argv[1] == "manifest":
    os.execv({os.path.join(BIN, "sgpu")!r}, ["sgpu", *sys.argv[1:]])
"""
X = np.arange(4096, dtype=np.uint8)
SLOW = np.zeros((256, 256, 128), np.float32)


def mask(values=X, **more):
    return sgpu.run("threshold", values, low=70, high=140, device="cpu", **more)


def right(values=X):
    return ((values >= 70) & (values <= 140)).astype(np.uint8)


def smooth(**more):
    return sgpu.run("gaussian3d", SLOW, device="cpu", **{"sigma": 2.0, **more})


def endless():
    """A call that takes so long that it can be interrupted on any machine."""
    smooth(sigma=64.0, truncate=8.0)


def raised(kind, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def process(on=None):
    return pipe_for(on, None if on else "cpu")._process


def later(seconds, call, *arguments):
    thread = threading.Timer(seconds, call, arguments)
    thread.start()
    return thread


def python(code):
    """Runs a script with the package, which warns of nothing; returns what it printed."""
    environment = dict(os.environ, PYTHONPATH=os.path.join(TOP, "python"))
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, check=False,
                          env=environment, start_new_session=True)
    assert done.returncode == 0 and done.stderr == b"", done.stderr.decode()
    return done.stdout.decode()


def fake(text):
    """A program `sgpu` in place of the real one, for calls in this folder."""
    os.mkdir("fake")
    write("fake/sgpu", f"#!{sys.executable}\n{text}".encode())
    os.chmod("fake/sgpu", 0o755)
    sgpu.close_all()
    os.environ["SGPU_BIN"] = os.path.abspath("fake")


def with_fake(text, call):
    fake(text)
    try:
        return call()
    finally:
        sgpu.close_all()
        del os.environ["SGPU_BIN"]
        os.rename("fake", f"fake.{time.monotonic_ns()}")


# ---- arrays ----
@test
def arrays_of_any_layout():
    """arrays of any layout and byte order come through, and results are new and writable"""
    frozen = X.copy()
    frozen.flags.writeable = False
    for values in (X, X[::2], X[::-1], X.reshape(64, 64).T, X.reshape(4, 4, 16, 16)[:, 1:, ::3], frozen, X > 70, X[:0],
                   X[:0].reshape(3, 0), X[70], np.float32(70), X.astype(">i2"), X.astype(">f4"), X.astype(">f8"),
                   X.astype("f2")):
        values = np.asarray(values)
        result = mask(values)
        assert result.shape == values.shape and result.dtype == np.uint8, (values.dtype, result.shape)
        assert np.array_equal(result, right(values)), values.dtype
        assert result.flags.owndata and result.flags.writeable and result.flags.c_contiguous
    for size in range(65400, 65540, 13):  # about what goes through the pipe in one piece
        assert np.array_equal(mask(np.resize(X, size)), right(np.resize(X, size))), size
    assert mask(100) == 1 and np.array_equal(mask([1, 100, 141]), [0, 1, 0])


@test
def casts_keep_values():
    """a cast that keeps every value is made; one that cannot is a TypeError, and so is a type that sgpu has not"""
    for values in (X.astype("i1"), X.astype("u2"), X.astype("u4"), X.astype("i8"), X.astype("u8"),
                   np.array([2**53, -2**63, 2**62])):
        assert np.array_equal(mask(values), right(values)), values.dtype
    for values in (np.array([2**53 + 1]), np.array([2**63 - 1]), np.array([2**64 - 1], np.uint64), X.astype("c8"),
                   X.astype("g"), np.zeros(3, "i4,f4"), np.array(["a"]), np.array([None]), np.zeros(3, "M8[s]"),
                   np.ma.masked_array(X, X > 3), np.zeros((1, 1, 1, 1, 1), np.uint8)):
        raised(TypeError, mask, values)
    wide = sgpu.run("vector_add", a=X.astype("u2"), b=X / 3, device="cpu")
    assert wide.dtype == np.float64 and np.array_equal(wide, X.astype("u2") + X / 3)


@test
def calls_that_look_alike():
    """calls that look alike but are not are told apart, and an array may be given twice"""
    floats = X.astype(np.float32)
    for _ in range(2):
        assert np.array_equal(mask(), right()) and mask(floats).sum() == right().sum()
        for square in (X.reshape(64, 64), np.asfortranarray(X.reshape(64, 64))):
            assert np.array_equal(mask(square), right(square))
        assert sgpu.run("threshold", X, low=1, device="cpu").sum() == (X >= 1).sum()
        assert raised(sgpu.SgpuError, sgpu.run, "threshold", X, low=True, device="cpu").code == "EINVALID"
        assert np.array_equal(mask(mode="indices"), np.flatnonzero(right()))
        assert np.array_equal(sgpu.run("vector_add", a=floats, b=floats, device="cpu"), 2 * floats)
        assert np.array_equal(sgpu.run("vector_add", a=floats, b=floats + 1, device="cpu"), 2 * floats + 1)
        assert np.array_equal(mask(public="input"), right())
        assert np.array_equal(mask(public=["input", "output"]), right())
    rows = np.ones((2, 3), np.float32)
    assert sgpu.run("reduce", rows, operation="sum", axis=0, device="cpu").tolist() == [2, 2, 2]
    times = []
    for _ in range(1000):
        start = time.perf_counter()
        mask()
        times.append(time.perf_counter() - start)
    print(f"# 1,000 calls of 4 KiB: median {statistics.median(times) * 1e3:.2f} ms, least {min(times) * 1e3:.2f} ms")


@test
def more_than_four_gib():
    """more than 4 GiB go through the pipe in one call"""
    code = TABLES + """import json
read, write = sys.stdin.buffer.read, sys.stdout.buffer.write
def say(answer):
    text = json.dumps(answer).encode()
    write(b"sgpu" + len(text).to_bytes(4, "little") + bytes(8) + text)
    sys.stdout.flush()
say({"ready": True, "version": 1})
head = read(16)
read(int.from_bytes(head[4:8], "little"))
size = left = int.from_bytes(head[8:16], "little")
piece = bytearray(1 << 20)
while left:
    left -= sys.stdin.buffer.readinto(memoryview(piece)[:min(left, len(piece))])
say({"error": {"code": "EINVALID", "text": f"{size} came", "hint": None, "retryable": False}})
"""
    half = np.zeros((1 << 31) + 4096, np.uint8)
    error = with_fake(code, lambda: raised(sgpu.SgpuError, sgpu.run, "vector_add", a=half, b=half[:], device="cpu"))
    assert error.text == f"{2 * half.size} came", error


@test
def images_of_nibabel():
    """an image of nibabel goes in with its scaled values, and comes back with its geometry"""
    import nibabel

    names = ("example4d.nii.gz", "example_nifti2.nii.gz", "standard.nii.gz", "anatomical.nii")
    for name in names:
        image = nibabel.load(os.path.join(os.path.dirname(nibabel.__file__), "tests", "data", name))
        low = float(np.median(image.get_fdata()))
        result = sgpu.run("threshold", image, low=low, device="cpu")
        assert type(result) is type(image) and result.shape == image.shape and result.get_data_dtype() == np.uint8
        wanted = np.asanyarray(image.dataobj) >= low
        nibabel.save(result, "mask.nii.gz")
        again = nibabel.load("mask.nii.gz")
        assert np.array_equal(again.get_fdata(), wanted) and np.array_equal(again.affine, image.affine), name
        assert again.header.get_zooms() == image.header.get_zooms(), name
        assert isinstance(sgpu.run("threshold", image, low=low, mode="indices", device="cpu"), np.ndarray)
        assert isinstance(sgpu.run("cast", image, dtype="f16", device="cpu"), np.ndarray), "NIfTI has no f16"
        values = np.asanyarray(image.dataobj)
        double = sgpu.run("vector_add", a=image, b=values, device="cpu")
        assert np.array_equal(double.get_fdata(), values + values), name


# ---- jobs ----
@test
def a_network_on_sealed_rows():
    """a network of scikit-learn on sealed rows of its digits has scikit-learn's accuracy"""
    try:
        from sklearn.datasets import load_digits
        from sklearn.neural_network import MLPClassifier
    except ImportError:
        print("# skipped: no scikit-learn")
        return
    rows, labels = load_digits(return_X_y=True)
    rows, labels, unseen, wanted = rows[:1200], labels[:1200], rows[1200:], labels[1200:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scikit-learn: it may not have converged
        net = MLPClassifier((32,), max_iter=60, random_state=1).fit(rows, labels)
    (w0, w1), (b0, b1) = net.coefs_, net.intercepts_

    job = sgpu.Job()
    hidden = job.add("dense", unseen, weights=w0, bias=b0, activation="relu")
    scores = job.run(job.add("dense", hidden, weights=w1, bias=b1))
    accuracy = (scores.argmax(1) == wanted).mean()

    assert accuracy == net.score(unseen, wanted) > 0.85, accuracy
    assert np.array_equal(scores.argmax(1), net.predict(unseen))
    print(f"# accuracy {accuracy:.4f} on {len(unseen)} sealed rows")


@test
def graphs():
    """a job gives the values that are asked for, in order, and what failed to be added leaves it as it was"""
    job = sgpu.Job("graph")
    floats = X.astype(np.float32)
    raised(TypeError, job.add, "vector_add", a=floats, b=X.astype("c8"))
    double = job.add("vector_add", a=floats, b=floats)
    triple = job.add("vector_add", a=double, b=floats)
    calls = job.add("black_scholes", price=floats + 1, strike=floats + 1, years=floats + 1, rate=0.1, volatility=0.2,
                    outputs=("output_call", "output_put"))
    first, second = job.run(triple, double, device="cpu")
    stepped = job.add("sgd", weights=double, gradient=floats, velocity=floats, rate=0.5, momentum=0.5,
                      outputs="output_velocity")
    assert np.array_equal(job.run(stepped["output_velocity"], device="cpu"), 1.5 * floats)
    assert np.array_equal(job.run(stepped["output"], device="cpu"), 2 * floats - 0.75 * floats)
    assert np.array_equal(first, 3 * floats) and np.array_equal(second, 2 * floats)
    assert sorted(calls) == ["output_call", "output_put"]
    assert job.run(calls["output_put"], device="cpu").shape == X.shape
    raised(ValueError, sgpu.Job().add, "threshold", double)
    raised(ValueError, sgpu.Job().run, double)
    raised(TypeError, job.run)
    assert len(job._batch([triple])[1]) == 1, "an array that several operations take travels once"


@test
def the_operation_map():
    """map takes an expression and named arrays"""
    if subprocess.run(["sgpu", "manifest", "ops", "map"], capture_output=True, check=False).returncode:
        print("# skipped: there is no operation map")
        return
    floats = X.astype(np.float32)
    expression = "where((a > 70) & (m > 0), a * 0.5, 0)"
    wanted = np.where((floats > 70) & (X % 2 > 0), floats * np.float32(0.5), np.float32(0))
    for _ in range(2):
        assert np.array_equal(sgpu.run("map", expression, a=floats, m=X % 2, device="cpu"), wanted)
    assert np.array_equal(sgpu.run("map", "x * 2", floats, device="cpu"), floats * 2)
    assert raised(sgpu.SgpuError, sgpu.run, "map", "x *", floats, device="cpu").code == "EINVALID"


# ---- errors ----
@test
def errors():
    """what fails says why: SgpuError with code, text and hint, or TypeError for wrong names"""
    error = raised(sgpu.SgpuError, sgpu.run, "thresholds", X)
    assert error.code == "EUSAGE" and "threshold" in error.hint and not error.retryable
    assert str(error) == f"{error.text} (EUSAGE); {error.hint}"
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.code, copy.text, copy.hint, copy.retryable) == (error.code, error.text, error.hint, error.retryable)
    for call in ({"lo": 70}, {"public": "nothing"}, {"outputs": "nothing"}, {"output": X}):
        raised(TypeError, sgpu.run, "threshold", X, **call)
    raised(TypeError, sgpu.run, "vector_add", X)
    raised(TypeError, sgpu.run, "threshold", X, input=X)
    raised(TypeError, sgpu.run, "black_scholes", price=X, strike=X, years=X)
    raised(ValueError, sgpu.run, "threshold", X, low=float("nan"))
    running = process()
    for text, call in (("number", {"low": "a"}), ("mask, indices", {"mode": "m"})):
        error = raised(sgpu.SgpuError, sgpu.run, "threshold", X, device="cpu", **call)
        assert error.code == "EINVALID" and text in error.text
    assert raised(sgpu.SgpuError, sgpu.run, "threshold", device="cpu").code == "EINVALID"
    error = raised(sgpu.SgpuError, mask, public="output")
    assert error.code == "EINVALID" and "HIGH" in error.text
    assert np.array_equal(mask(public="output", declassify=True), right())
    assert process() is running, "an error of a job ended the pipe"
    raised(ValueError, sgpu.run, "threshold", X, device="cpu", on="lab")
    assert raised(sgpu.SgpuError, sgpu.run, "threshold", X, device="banana").code == "EUSAGE"
    error = raised(sgpu.SgpuError, sgpu.run, "threshold", X, on="nobody")
    assert error.code == "EUSAGE" and "sgpu host add" in error.hint


@test
def programs_that_say_nonsense():
    """a program that says nonsense, is of another version, or ends within a frame is an error, and no answer"""
    ready = b'{"ready":true,"version":1}'
    frame = b"sgpu" + len(ready).to_bytes(4, "little") + bytes(8) + ready
    outputs = b'{"outputs":[{"segment_id":"s1","dtype":"u8","shape":[4096],"size":4096}]}'
    answer = b"sgpu" + len(outputs).to_bytes(4, "little") + (4096).to_bytes(8, "little") + outputs
    for said, code, text in (
        (b"Usage: sgpu [OPTION]...", "EINVALID", "does not speak"),
        (frame.replace(b":1}", b":2}"), "EINVALID", "another version"),
        (b"", "EDEVICE", "status 7"),
        (frame[:20], "EDEVICE", "status 7"),
        (frame + answer[:40], "EDEVICE", "status 7"),
        (frame + answer + bytes(4095), "EDEVICE", "status 7"),
    ):
        program = f"{TABLES}sys.stdout.buffer.write({said!r})\nsys.stdout.flush()\nsys.exit(7)\n"
        error = with_fake(program, lambda: raised(sgpu.SgpuError, mask))
        assert error.code == code and text in error.text, (said, error)
    assert np.array_equal(mask(), right())


# ---- processes and threads ----
@test
def threads_take_turns():
    """calls of several threads take turns and get their own results, and other threads run meanwhile"""
    wrong = []

    def work(number):
        for size in range(1, 40):
            values = np.full(size, number, np.uint8)
            if not np.array_equal(mask(values), right(values)):
                wrong.append(number)
    threads = [threading.Thread(target=work, args=(number,)) for number in (60, 80, 100, 120, 160)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong
    beats = []
    runner = threading.Thread(target=smooth)
    runner.start()
    while runner.is_alive():
        beats.append(time.perf_counter())
        time.sleep(0.005)
    assert len(beats) > 3 and beats[-1] - beats[0] > 0.02, beats


@test
def an_interrupted_call():
    """an interrupted call leaves no answer behind for the next one, nor a process"""
    mask()
    running = process()
    timer = later(0.3, os.kill, os.getpid(), signal.SIGINT)
    raised(KeyboardInterrupt, endless)
    timer.join()
    assert running.returncode is not None and process() is None
    assert np.array_equal(mask(), right()) and process().pid != running.pid
    python("""
import os, signal, numpy as np, sgpu
def call():
    sgpu.run("threshold", np.arange(10, dtype=np.uint8), low=4, device="cpu")
    return sgpu._pipe.pipe_for(None, "cpu")._process.pid
signal.signal(signal.SIGINT, signal.default_int_handler)
pid = call()
try:
    os.killpg(0, signal.SIGINT)  # Ctrl-C between calls
except KeyboardInterrupt:
    pass
assert call() == pid
""")


@test
def processes_that_end():
    """a pipe that was killed in a call is an error that can be retried; one that was killed before is started anew"""
    mask()
    timer = later(0.3, process().kill)
    error = raised(sgpu.SgpuError, endless)
    timer.join()
    assert error.code == "EDEVICE" and error.retryable and "-9" in error.text
    assert np.array_equal(mask(), right())
    process().kill()
    os.waitid(os.P_PID, process().pid, os.WEXITED | os.WNOWAIT)
    assert np.array_equal(mask(), right())
    enclave = int(sh("pgrep", "-P", str(process().pid)))
    os.kill(enclave, signal.SIGKILL)
    assert raised(sgpu.SgpuError, mask).code == "EDEVICE"
    assert np.array_equal(mask(), right())
    running = process()
    sgpu.close_all()
    assert running.returncode is not None and np.array_equal(mask(), right())


@test
def forks_and_ends():
    """a child of a fork starts its own pipe, and Python ends at once, with every process, whatever is running"""
    code = """
import os, sys, threading, time, numpy as np, sgpu
x = np.arange(10, dtype=np.uint8)
go = lambda: int(sgpu.run("threshold", x, low=4, device="cpu").sum())
go()
pid = sgpu._pipe.pipe_for(None, "cpu")._process.pid
child = os.fork()
if child == 0:
    assert sgpu._pipe._pipes == {} and go() == 6 and sgpu._pipe.pipe_for(None, "cpu")._process.pid != pid
    sys.exit(0)
waiting = os.fork()
if waiting == 0:
    time.sleep(30)  # holds no end of the parent's pipe
    os._exit(1)
assert os.waitpid(child, 0)[1] == 0 and go() == 6
sgpu.close_all()
go()
os.kill(waiting, 9)
print(sgpu._pipe.pipe_for(None, "cpu")._process.pid, flush=True)
slow = np.zeros((512, 256, 256), np.float32)
def work():
    try:
        sgpu.run("gaussian3d", slow, sigma=16.0, truncate=8.0, device="cpu")
    except sgpu.SgpuError:
        pass
threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
"""
    start = time.monotonic()
    pid = int(python(code))
    assert time.monotonic() - start < 10
    assert not os.path.exists(f"/proc/{pid}")


# ---- hosts ----
@test
def a_host():
    """a job runs on a host that proves itself, and so does the next one after the host's server was started anew"""
    os.environ.update(XDG_CONFIG_HOME=os.path.abspath("config"), XDG_RUNTIME_DIR=os.path.abspath("runtime"))
    os.mkdir("runtime", 0o700)
    sh("sh", "-ec", """
        sgpu-measure keygen -o ca.pem --authority ca.crt
        sgpu-measure keygen -o ek.pem | sgpu-measure certify -k ca.pem --certificate ca.crt -o ek.crt
        sgpu-measure keygen -o ak.pem | sgpu-measure certify -k ek.pem --certificate ek.crt -o ak.crt
        cat ak.crt ek.crt >chain.crt""")

    def server():
        command = ["sgpu-serve", "--device", "cpu", "--sessions", "none", "--attestation-key", "ak.pem",
                   "--certificate", "chain.crt"]
        with open("log", "wb") as log:
            running = subprocess.Popen(command, stderr=log)
        while b"serving at" not in read("log"):
            assert running.poll() is None, read("log")
            time.sleep(0.01)
        return running
    running = server()
    try:
        sh("sgpu", "host", "add", "here", "--socket", "runtime/sgpu/run.sock", "--roots", "ca.crt", "--yes")
        assert np.array_equal(sgpu.run("threshold", X, low=70, high=140, on="here"), right())
        running.terminate()
        running.wait()
        running = server()
        assert np.array_equal(sgpu.run("threshold", X, low=70, high=140, on="here"), right())
        running.terminate()
        running.wait()
        assert raised(sgpu.SgpuError, sgpu.run, "threshold", X, low=70, on="here").code == "EUNAVAILABLE"
    finally:
        running.kill()
        sgpu.close_all()
        del os.environ["XDG_CONFIG_HOME"], os.environ["XDG_RUNTIME_DIR"]


# ---- the wheel ----
@test
def the_wheel():
    """the wheel is made of the same bytes twice, and works in an environment that has numpy alone"""
    for folder in ("one", "two"):
        os.mkdir(folder)
        sh(sys.executable, os.path.join(TOP, "scripts", "wheel.py"), folder)
    (wheel,) = glob.glob("one/*.whl")
    assert read(wheel) == read(wheel.replace("one/", "two/"))
    sh(sys.executable, "-m", "venv", "--without-pip", "clean")
    inside = os.path.abspath("clean/bin/python")
    sh(sys.executable, "-m", "pip", "--python", inside, "install", "--quiet", "--no-index", "--no-deps", wheel)
    (site,) = glob.glob("clean/lib/python3*/site-packages")
    for path in glob.glob(os.path.join(os.path.dirname(np.__path__[0]), "numpy*")):
        os.symlink(path, os.path.join(site, os.path.basename(path)))
    code = ("import numpy as np, sgpu\n"
            "print(sgpu.run('threshold', np.arange(10), low=4, device='cpu').sum(), sgpu.__file__)")
    said = sh("env", "-u", "PYTHONPATH", inside, "-W", "error", "-c", code).decode()
    assert said.startswith("6 ") and site in said, said
    version = sh("sgpu", "--version").split()[2].decode().rstrip(",")
    installed = sh(inside, "-c", "import importlib.metadata as m; print(m.version('sgpu'))").decode().strip()
    assert version.replace("-dev", ".dev0") == installed, (version, installed)
    code = "import sgpu\ntry: sgpu.run('threshold', [1])\nexcept sgpu.SgpuError as error: print(error)"
    said = sh("env", "PATH=/nowhere", inside, "-c", code).decode()
    assert "no program 'sgpu' in the PATH" in said and "build sgpu" in said and "SGPU_BIN" in said, said


main()
