"""A gallery that grows: what searches need of it is the same as made at once, and a new row costs the same."""

import math
import time

import torch

from similis.retrieval.gallery import Contents, Entry, Gallery
from similis.retrieval.similarity import as_gallery, to_comparable


def test_a_gallery_that_grew_is_prepared_as_one_made_at_once():
    chance = torch.Generator().manual_seed(0)
    known = torch.randn(20, 4, generator=chance)
    gallery, moments = Gallery(4), []
    for n in range(60):
        row = int(torch.randint(20, (1,), generator=chance))  # rows repeat
        gallery.add(known[row : row + 1], [Entry(f"{n}", None if n > 40 and n % 7 == 0 else f"class {n % 5}", "")])
        if n % 3 == 0:
            held = gallery.contents()
            moments.append((held, held.rows, held.voters))
    for held, rows, voters in moments:  # after all the others were added
        entries = list(held.entries)
        for grown, whole in zip(rows, as_gallery(to_comparable(held.vectors.clone())), strict=True):
            assert torch.equal(grown, whole)
        fresh = Contents(held.vectors.clone(), entries, 0).voters
        assert torch.equal(fresh.labels, voters.labels)
        assert torch.equal(fresh.rows.vectors, voters.rows.vectors)
        assert list(fresh.names) == list(voters.names)
        assert held.places("class 1").tolist() == [n for n, entry in enumerate(entries) if entry.label == "class 1"]
        counts = held.label_counts()
        assert counts == {name: sum(entry.label == name for entry in entries) for name in fresh.names}


def test_removing_prepares_anew():
    gallery = Gallery(2)
    gallery.add(torch.eye(2), [Entry("a", "cat", ""), Entry("b", "dog", "")])
    before = gallery.contents()
    assert before.search(torch.tensor([[1.0, 0.1]]), 1).index.tolist() == [[0]]
    gallery.remove(["a"])
    gallery.add(torch.tensor([[3.0, 0.0]]), [Entry("c", "cat", "")])
    after = gallery.contents()
    assert after.search(torch.tensor([[1.0, 0.1]]), 1, label="cat").index.tolist() == [[1]]
    assert list(after.numbered.names) == ["dog", "cat"]
    assert [entry.id for entry in before.entries] == ["a", "b"]


def test_the_cost_of_one_more_row_does_not_follow_the_size():
    """Seconds as a power of the number of rows: an exponent of 1 if every row were prepared again."""
    sizes, seconds = (500, 32_000), []
    for size in sizes:
        gallery = Gallery(64)
        gallery.add(torch.randn(size, 64), [Entry(f"{n}", f"class {n % 50}", "") for n in range(size)])
        taken = []
        for n in range(-1, 30):  # the first one pays for the room
            begin = time.thread_time()
            gallery.add(torch.randn(1, 64), [Entry(f"new {n}", "class 1", "")])
            held = gallery.contents()
            assert len(held.rows.vectors) == len(held.voters.labels) == size + n + 2
            taken.append(time.thread_time() - begin)
        seconds.append(min(taken))
    assert math.log(seconds[1] / seconds[0]) / math.log(sizes[1] / sizes[0]) < 0.4
