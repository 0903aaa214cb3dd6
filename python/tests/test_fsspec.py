"""fsspec reads an image as any other file system."""

import fsspec


def test_a_chained_url_opens_a_file(tiny):
    with fsspec.open(f"shale://d/text::file://{tiny}") as file:
        assert len(file.read()) == 3000


def test_listing_and_ranges(tiny):
    system = fsspec.filesystem("shale", fo=str(tiny))
    assert [entry["name"] for entry in system.ls("d")] == system.ls("d", detail=False)
    assert system.info("d")["type"] == "directory" and system.info("d/text")["size"] == 3000
    whole = system.cat_file("d/text")
    assert system.cat_ranges(["d/text", "d/text"], [0, 10], [4, 14]) == [whole[:4], whole[10:14]]
    assert set(system.find("")) >= {"d/text", "holes"}
    assert system.glob("d/t*") == ["d/text"]
    assert system.isdir("d") and not system.exists("nothing")
    assert system.cat(["d/text", "empty"]) == {"d/text": whole, "empty": b""}
    fsspec.filesystem("memory").pipe("/x.shale", tiny.read_bytes())
    assert fsspec.filesystem("shale", fo="memory://x.shale").cat_file("d/text") == whole
