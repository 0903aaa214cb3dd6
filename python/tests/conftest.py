"""Where the images of the project are."""

import pathlib

import pytest

IMAGES = pathlib.Path(__file__).resolve().parents[2] / "testdata" / "images"


@pytest.fixture(scope="session")
def images():
    assert any(IMAGES.glob("*.shale")), f"no golden images in {IMAGES}"
    return IMAGES


@pytest.fixture
def tiny(images):
    return images / "0.3-tiny.shale"
