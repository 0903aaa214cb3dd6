"""Images encrypted with age. The compiled module opens them; the reader in Python says that it cannot."""

import pathlib
import pickle
import shutil
import subprocess

import pytest
import shalefs

SEALED = pathlib.Path(__file__).resolve().parents[2] / "testdata" / "age" / "passphrase.shale.age"
PASSPHRASE = "correct horse"
native = pytest.mark.skipif(shalefs.engine == "pure", reason="only the compiled module decrypts")


@pytest.fixture(scope="session")
def keys(tmp_path_factory):
    """Two files of keys, and a function that encrypts a file to the first one."""
    if not shutil.which("age"):
        pytest.skip("age is not installed")
    folder = tmp_path_factory.mktemp("keys")
    for name in ("right", "wrong"):
        subprocess.run(["age-keygen", "-o", folder / name], check=True, stderr=subprocess.DEVNULL)
    run = subprocess.run(["age-keygen", "-y", folder / "right"], check=True, stdout=subprocess.PIPE, text=True)

    def seal(source, target):
        subprocess.run(["age", "-r", run.stdout.strip(), "-o", target, source], check=True)
        return target

    return folder / "right", folder / "wrong", seal


@pytest.mark.skipif(shalefs.engine == "native", reason="the compiled module decrypts")
def test_the_reader_in_python_says_that_it_cannot_decrypt():
    with pytest.raises(shalefs.UnsupportedError, match="age -d"):
        shalefs.open(SEALED, passphrase=PASSPHRASE)


@native
def test_a_passphrase_opens_an_image():
    for passphrase in (PASSPHRASE, PASSPHRASE.encode()):
        with shalefs.open(SEALED, passphrase=passphrase) as image:
            assert image.isdir("") and image.listdir() == []  # It holds an empty directory.
    for passphrase, message in ((None, "none was given"), ("wrong", "wrong passphrase")):
        with pytest.raises(shalefs.EncryptedError, match=message):
            shalefs.open(SEALED, passphrase=passphrase)


@native
def test_a_key_opens_what_is_encrypted_to_it(tiny, tmp_path, keys):
    right, wrong, seal = keys
    sealed = seal(tiny, tmp_path / "x.shale.age")
    text = next(line for line in right.read_text().splitlines() if not line.startswith("#"))
    with shalefs.open(tiny) as plain:
        for identity in (right, str(right), text, [wrong, right]):
            with shalefs.open(sealed, identity=identity) as image:
                assert image.identity == plain.identity and image.listdir("d") == plain.listdir("d")
                assert [data for _, data in image.read_many()] == [data for _, data in plain.read_many()]
                again = pickle.loads(pickle.dumps(image))
                assert again.read_bytes("d/text") == plain.read_bytes("d/text")
        for source in (sealed.read_bytes(), open(sealed, "rb")):
            source = bytearray(source) if isinstance(source, bytes) else source
            with shalefs.open(source, identity=right, expect=plain.identity) as image:
                assert image.read_bytes("d/text") == plain.read_bytes("d/text")
        assert shalefs.check(sealed, identity=right).clean
    for identity in (wrong, None):
        with pytest.raises(shalefs.EncryptedError, match="key"):
            shalefs.open(sealed, identity=identity)
    (tmp_path / "empty").write_text("# no key\n")
    with pytest.raises(ValueError, match="no key"):
        shalefs.open(sealed, identity=tmp_path / "empty")
    with pytest.raises(FileNotFoundError):
        shalefs.open(sealed, identity=tmp_path / "none")
    # Keys that nothing needs do no harm.
    with shalefs.open(tiny, identity=tmp_path / "none", passphrase="x") as image:
        assert image.isdir("d")


@native
def test_damage_of_an_encrypted_image_is_an_error_and_never_data(tiny, tmp_path, keys):
    right, _, seal = keys
    data = bytearray(seal(tiny, tmp_path / "x.shale.age").read_bytes())
    for at in (len(data) // 2, len(data) - 40):
        damaged = bytearray(data)
        damaged[at] ^= 1
        with pytest.raises(shalefs.DamagedError):
            with shalefs.open(damaged, identity=right) as image:
                dict(image.read_many())
    with pytest.raises(shalefs.DamagedError):
        shalefs.open(data[:-100], identity=right)


@native
def test_an_encrypted_image_behind_a_url_is_read_in_ranges(tiny, tmp_path, keys):
    fsspec = pytest.importorskip("fsspec")
    right, _, seal = keys
    fsspec.filesystem("memory").pipe("/sealed/x.shale.age", seal(tiny, tmp_path / "x").read_bytes())
    with shalefs.open("memory://sealed/x.shale.age", identity=right) as image, shalefs.open(tiny) as plain:
        assert dict(image.read_many(image.find("d"))) == dict(plain.read_many(plain.find("d")))


@native
def test_the_base_of_a_thin_image_may_be_encrypted(images, tmp_path, keys):
    right, _, seal = keys
    thin, base = images / "0.4-over-tiny.thin", images / "0.3-tiny.shale"
    sealed = seal(thin, tmp_path / (thin.name + ".age"))
    beside = seal(base, tmp_path / (base.name + ".age"))
    with shalefs.open(thin) as plain:
        for how in ({}, {"base": beside}, {"base": tmp_path}, {"base": base}):
            with shalefs.open(sealed, identity=right, **how) as image:
                assert image.identity == plain.identity and list(image.find()) == list(plain.find())
