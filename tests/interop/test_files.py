# SPDX-License-Identifier: Apache-2.0
"""Arrays in files against NumPy and nibabel: every file reads as they read it, or is refused with a reason."""
import glob
import gzip
import io
import itertools
import json
import os
import struct
import subprocess
import warnings

import nibabel
import numpy as np

from tap import main, sh, test, write

PROGRAM = os.path.join(os.environ["SGPU_BUILD"], "interop", "array_file")
NAMES = {"f2": "f16", "f4": "f32", "f8": "f64", "i1": "i8", "u1": "u8", "i2": "i16", "u2": "u16", "i4": "i32", "u4": "u32",
         "i8": "i64", "u8": "u64", "b1": "u8"}
TYPES = {name: code for code, name in NAMES.items() if code != "b1"}
NIFTI = [code for code in NAMES if code not in ("f2", "b1")]
warnings.simplefilter("ignore")


def name_of(dtype):
    return NAMES[dtype.str[1:]]


def load(*arguments):
    """What array_file says of a file, and its elements as an array."""
    out = sh(PROGRAM, "read", *arguments)
    line, elements = out.split(b"\n", 1)
    info = json.loads(line)
    array = np.frombuffer(elements, "<" + TYPES[info["dtype"]]).reshape(info["shape"], order=info["order"])
    if info["plain"]:
        with open(arguments[0], "rb") as file:
            file.seek(info["offset"])
            assert file.read(len(elements)) == elements
    return info, array


def refused(reason, *arguments, status=1):
    done = subprocess.run([PROGRAM, "read", *arguments], capture_output=True, check=False)
    assert done.returncode == status, (arguments, done)
    assert reason in done.stderr.decode(), (arguments, done.stderr)
    return done.stderr.decode()


def same(array, wanted):
    assert array.shape == wanted.shape, (array.shape, wanted.shape)
    assert array.dtype.itemsize == wanted.dtype.itemsize, (array.dtype, wanted.dtype)
    little = wanted.astype(wanted.dtype.newbyteorder("<"))
    assert array.tobytes() == little.tobytes()


def made(code, shape, seed=1):
    """An array with all kinds of values, the least and the greatest ones, NaN and infinities."""
    random = np.random.default_rng(seed)
    count = int(np.prod(shape))
    if code == "b1":
        return random.integers(0, 2, count).astype(bool).reshape(shape)
    array = np.frombuffer(random.bytes(count * np.dtype(code).itemsize), code).copy()
    if array.dtype.kind == "f" and count > 3:
        array[:4] = [np.nan, np.inf, -np.inf, -0.0]
    return array.reshape(shape)


def as_nibabel(path):
    image = nibabel.load(path)
    return image, np.asanyarray(image.dataobj.get_unscaled())


def nifti_equal(path):
    """Reads a NIfTI file as nibabel does: type, shape, order, scaling, voxels."""
    info, array = load(path)
    image, stored = as_nibabel(path)
    shape = stored.shape
    while len(shape) > 4:
        shape = shape[:-1]
    same(array, stored.reshape(shape, order="F"))
    slope, inter = image.dataobj.slope, image.dataobj.inter
    assert (info["slope"], info["inter"]) == (slope, inter), (info, slope, inter)
    zooms = [float(zoom) for zoom in image.header.get_zooms()[:3]]
    assert np.allclose(info["voxel"][:len(zooms)], zooms), (info["voxel"], zooms)
    return image, array


def image_of(array, kind=nibabel.Nifti1Image, endian="<", affine=None, **fields):
    affine = np.diag([-2.0, 3, 4, 1]) if affine is None else affine
    header = kind.header_class(endianness=endian)
    image = kind(array, affine, header, dtype=array.dtype)
    for field, value in fields.items():
        image.header[field] = value
    return image


# ---- NIfTI ----
@test
def nifti():
    """NIfTI files of all types, byte orders, ranks, versions and pairs read as nibabel reads them"""
    count = 0
    kinds = [(nibabel.Nifti1Image, "a.nii"), (nibabel.Nifti1Image, "a.nii.gz"), (nibabel.Nifti2Image, "a.nii"),
             (nibabel.Nifti2Image, "a.nii.gz"), (nibabel.Nifti1Pair, "a.hdr"), (nibabel.Nifti2Pair, "a.img"),
             (nibabel.Nifti1Pair, "a.img.gz")]
    shapes = [(7,), (5, 3), (4, 3, 2), (3, 4, 5, 2), (3, 2, 1, 2, 1), (6, 1, 1), (2, 2, 2, 1, 1, 1, 1)]
    for i, (code, endian) in enumerate(itertools.product(NIFTI, "<>")):
        for k in range(4):
            kind, path = kinds[(i + 2 * k) % len(kinds)]
            array = made(code, shapes[(i + k) % len(shapes)], i).astype(endian + code)
            image_of(array, kind, endian).to_filename(path)
            nifti_equal(path)
            count += 1
    assert count >= 80


@test
def scaling():
    """slopes and intercepts are told as nibabel tells them; what is no number is refused"""
    array = made("i2", (3, 4, 5))
    for slope, inter in ((1, 0), (2.5, 0), (1, -1024), (-0.25, 3), (0, 5), (1e-30, 1e30)):
        for kind in (nibabel.Nifti1Image, nibabel.Nifti2Image):
            image_of(array, kind).to_filename("a.nii")
            with open("a.nii", "r+b") as file:
                file.seek(112 if kind is nibabel.Nifti1Image else 176)
                file.write(struct.pack("<ff" if kind is nibabel.Nifti1Image else "<dd", slope, inter))
            nifti_equal("a.nii")
    for slope, inter in ((np.nan, 0), (np.inf, 0), (1, np.nan)):
        image_of(array).to_filename("a.nii")
        with open("a.nii", "r+b") as file:
            file.seek(112)
            file.write(struct.pack("<ff", slope, inter))
        refused("which is no number", "a.nii")


@test
def refused_voxels():
    """complex voxels, colours, long floats, bits and matrices of CIFTI are refused by name"""
    colours = np.zeros((2, 3, 4), [("R", "u1"), ("G", "u1"), ("B", "u1")])
    image_of(colours).to_filename("a.nii")
    refused("colours (RGB)", "a.nii")
    image_of(np.zeros((2, 3, 4), "c8")).to_filename("a.nii")
    refused("complex", "a.nii")
    for code, reason in ((1, "single bits"), (1536, "128 bits"), (1792, "complex"), (2048, "complex"), (2304, "RGBA"), (3, "of no type of NIfTI")):
        image_of(np.zeros((2, 3, 4), "u1")).to_filename("a.nii")
        with open("a.nii", "r+b") as file:
            file.seek(70)
            file.write(struct.pack("<h", code))
        refused(reason, "a.nii")
    image_of(made("f4", (2, 2, 2, 1, 3))).to_filename("a.nii")
    refused("has 5 dimensions, at most 4", "a.nii")
    write("a.hdr", struct.pack("<i", 348) + bytes(344))
    write("a.img", bytes(10))
    refused("ANALYZE 7.5", "a.hdr")
    image_of(made("f4", (3, 3)), nibabel.Nifti1Pair).to_filename("b.hdr")
    os.unlink("b.img")
    refused("the other is missing", "b.hdr")


@test
def samples():
    """every sample file of nibabel reads as nibabel reads it, or is refused with a reason"""
    folder = os.path.join(os.path.dirname(nibabel.__file__), "tests", "data")
    read = refusals = 0
    for path in sorted(glob.glob(os.path.join(folder, "*"))):
        if not os.path.isfile(path):
            continue
        done = subprocess.run([PROGRAM, "read", path], capture_output=True, check=False)
        if done.returncode:
            message = done.stderr.decode()
            assert done.returncode == 1 and len(message) > 20, (path, message)
            assert ".nii" not in os.path.basename(path) or "CIFTI" in message or "dimensions" in message, message
            refusals += 1
        else:
            nifti_equal(path)
            read += 1
    assert read >= 7 and refusals >= 40, (read, refusals)


@test
def gzip_ends():
    """a compressed file of several members is read; cut, damaged or longer ones are refused"""
    image_of(made("i2", (9, 8, 7))).to_filename("a.nii")
    with open("a.nii", "rb") as file:
        plain = file.read()
    write("b.nii.gz", gzip.compress(plain[:500]) + gzip.compress(b"") + gzip.compress(plain[500:]))
    info, array = load("b.nii.gz")
    same(array, as_nibabel("a.nii")[1])
    assert info["gzip"] and not info["plain"]
    packed = gzip.compress(plain)
    for data in (packed[:-1], packed[:-8], packed[:len(packed) // 2], packed[:-5] + b"\1" + packed[-4:], packed + b"\0",
                 packed + gzip.compress(b"x"), gzip.compress(plain[:-1]), gzip.compress(plain + b"x")):
        write("c.nii.gz", data)
        refused("'c.nii.gz' is ", "c.nii.gz")


# ---- NumPy ----
@test
def npy():
    """.npy files of all types, byte orders, ranks, axis orders and versions read as NumPy reads them"""
    shapes = [(), (7,), (5, 3), (4, 3, 2), (3, 4, 5, 2), (0,), (3, 0, 2), (1, 1), (3, 1, 1, 1, 1, 1)]
    for i, (code, endian, order) in enumerate(itertools.product(NAMES, "<>", "CF")):
        for version in ((1, 0), (2, 0), (3, 0)):
            array = made(code, shapes[(i + version[0]) % len(shapes)]).astype(endian + code)
            array = np.array(array, order=order)
            with open("a.npy", "wb") as file:
                np.lib.format.write_array(file, array, version)
            info, got = load("a.npy")
            shape = array.shape[:4] if len(array.shape) > 4 else array.shape
            same(got, array.reshape(shape))
            assert info["boolean"] == (code == "b1") and info["format"] == "npy"
            assert info["fits"] == (code not in ("i8", "u8") or array.size == 0 or
                                    bool((array.astype("f8").astype(object) == array.astype(object)).all()))


@test
def exact():
    """64-bit integers fit f64 exactly when NumPy loses none"""
    for code, values in (("i8", (0, 1, -1, 2**53, -2**53, 2**62, -2**63, 2**53 + 2, 3 << 61)), ("u8", (2**63, 2**64 - 2**11))):
        np.save("a.npy", np.array(values, code))
        assert load("a.npy")[0]["fits"] == 1, code
    for code, value in (("i8", 2**53 + 1), ("i8", -2**53 - 1), ("i8", 2**63 - 1), ("u8", 2**64 - 1), ("u8", 2**63 + 1)):
        np.save("a.npy", np.array([0, value, 0], code))
        assert load("a.npy")[0]["fits"] == 0, value


@test
def refused_npy():
    """objects, strings, records, dates and complex numbers in .npy are refused by name"""
    for array, reason in ((np.array([{}]), "objects of Python"), (np.array(["a"]), "strings"), (np.array([b"a"]), "strings"),
                          (np.zeros(2, [("a", "f4"), ("b", "i2")]), "records of several fields"),
                          (np.zeros(2, "M8[s]"), "dates or times"), (np.zeros(2, "m8[s]"), "dates or times"),
                          (np.zeros(2, "c8"), "complex"), (np.zeros(2, "f16"), "a type that has no name here"),
                          (np.zeros(2, "V3"), "records")):
        np.save("a.npy", array)
        refused(reason, "a.npy")


@test
def npz():
    """members of stored and deflated .npz files read as NumPy reads them; without a name there must be one"""
    arrays = {"x": made("f4", (3, 5)), "größe": np.asfortranarray(made("i8", (4, 3, 2))), "flag": made("b1", (9,))}
    for save in (np.savez, np.savez_compressed):
        save("a.npz", **arrays)
        for name, array in arrays.items():
            for member in (name, name + ".npy"):
                info, got = load("a.npz", member)
                same(got, array)
                assert info["format"] == "npz" and not info["plain"]
        assert all(name in refused("3 arrays", "a.npz", status=2) for name in arrays)
        refused("has no array 'y'; it has: x", "a.npz", "y")
        save("b.npz", made("u2", (4, 4)))
        same(load("b.npz")[1], made("u2", (4, 4)))


def idx(array):
    kinds = {"u1": 8, "i1": 9, "i2": 11, "i4": 12, "f4": 13, "f8": 14}
    head = bytes([0, 0, kinds[array.dtype.str[1:]], array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.astype(array.dtype.newbyteorder(">")).tobytes()


@test
def idx_files():
    """IDX files of all types read as they are defined, compressed ones too"""
    for code in ("u1", "i1", "i2", "i4", "f4", "f8"):
        for shape in ((7,), (5, 3), (10, 28, 28), (2, 3, 4, 5)):
            array = made(code, shape)
            write("a.idx", idx(array))
            write("b", gzip.compress(idx(array)))
            same(load("a.idx")[1], array)
            same(load("b")[1], array)


# ---- writing ----
def save(path, array, order, like=()):
    kind = "bool" if array.dtype == bool else name_of(array.dtype)
    sh(PROGRAM, "write", path, kind, ",".join(map(str, array.shape)), order, *like, data=array.tobytes(order))


@test
def written_numpy():
    """NumPy reads what is written to .npy and .npz, whose .npy has the bytes that it writes itself"""
    for i, (code, order) in enumerate(itertools.product(NAMES, "CF")):
        for shape in ((), (7,), (5, 3), (4, 3, 2), (3, 4, 5, 2), (0, 3)):
            array = np.array(made(code, shape, i), order=order)
            save("a.npy", array, order)
            same(np.load("a.npy"), array)
            own = io.BytesIO()
            np.save(own, array)
            if array.ndim < 2 or 0 not in shape:
                with open("a.npy", "rb") as file:
                    assert file.read() == own.getvalue(), (code, order, shape)
            save("a.npz", array, order)
            with np.load("a.npz") as loaded:
                assert list(loaded) == ["arr_0"]
                same(loaded["arr_0"], array)
            same(load("a.npz")[1], array)


@test
def written_nifti():
    """nibabel reads what is written to .nii and .nii.gz, with the affine 1 if nothing else is known"""
    for i, code in enumerate(NIFTI):
        for path in ("a.nii", "a.nii.gz"):
            for shape in ((7,), (5, 3), (4, 3, 2), (3, 4, 5, 2)):
                array = made(code, shape, i)
                save(path, array, "F")
                image, stored = as_nibabel(path)
                same(stored, array)
                assert (image.affine == np.eye(4)).all() and type(image) is nibabel.Nifti1Image
                assert image.dataobj.slope == 1 and image.header.get_xyzt_units() == ("unknown", "unknown")
                nifti_equal(path)
    save("big.nii", made("u1", (40000, 2)), "F")
    assert type(nibabel.load("big.nii")) is nibabel.Nifti2Image
    same(as_nibabel("big.nii")[1], made("u1", (40000, 2)))


CHANGED = {"datatype", "bitpix", "scl_slope", "scl_inter", "vox_offset", "magic", "intent_code", "intent_p1", "intent_p2",
           "intent_p3", "intent_name"}


@test
def geometry():
    """a file like another keeps every field of its header but those of the type, and its affine"""
    affine = np.array([[-1.5, 0.2, 0, 90], [0.1, 2, 0.3, -126], [0, -0.4, 3, -72], [0, 0, 0, 1]])
    for kind, endian in itertools.product((nibabel.Nifti1Image, nibabel.Nifti2Image, nibabel.Nifti1Pair), "<>"):
        path = "like.hdr" if kind is nibabel.Nifti1Pair else "like.nii.gz"
        image = image_of(made("i2", (5, 4, 3, 1)), kind, endian, affine, descrip=b"by hand", aux_file=b"none", cal_max=7,
                         toffset=2.5, slice_code=3, slice_end=2, dim_info=39, intent_code=3, intent_name=b"t")
        image.header.set_xyzt_units("mm", "sec")
        image.set_qform(affine, 1)
        image.set_sform(affine, 4)
        image.to_filename(path)
        for array in (made("f4", (5, 4, 3, 1)), made("u1", (5, 4, 3)), made("f8", (2, 2, 2))):
            save("a.nii", array, "F", ["like.hdr" if kind is nibabel.Nifti1Pair else path])
            result, stored = as_nibabel("a.nii")
            assert (stored.shape == (5, 4, 3, 1)) == (array.size == 60)
            same(stored, array.reshape(stored.shape))
            assert (result.affine == nibabel.load(path).affine).all()
            for field, value in nibabel.load(path).header.items():
                if field not in CHANGED and not (array.size != 60 and field == "dim"):
                    assert (result.header[field] == value).all(), field
            assert result.header["intent_code"] == 0
    save("a.nii", made("u1", (40000, 2)), "F", ["like.hdr"])
    result = nibabel.load("a.nii")
    assert type(result) is nibabel.Nifti2Image and result.header["descrip"] == b"by hand"
    assert (result.affine == nibabel.load("like.hdr").affine).all() and result.header["slice_code"] == 3


@test
def zip_members():
    """a member whose bytes or whose digest are others is refused"""
    np.savez("a.npz", made("f4", (100,)))
    with open("a.npz", "rb") as file:
        data = bytearray(file.read())
    data[300] ^= 1
    write("b.npz", data)
    refused("CRC-32", "b.npz")
    np.savez_compressed("a.npz", np.zeros(1000))
    with open("a.npz", "rb") as file:
        data = bytearray(file.read())
    data[70] ^= 0xff
    write("b.npz", data)
    refused("is damaged", "b.npz")



main()
