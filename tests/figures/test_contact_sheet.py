"""Contact sheets: frames tell right from wrong, images keep their shape, words fit."""

import numpy as np
import pytest

from similis.figures.contact_sheet import FRAME, GAP, QUERY, RIGHT, WIDE, WRONG, Tile, draw_sheet, fit_square
from similis.values import UserError

GREY = np.full((6, 6, 3), 128, dtype=np.uint8)


def paper(figure):
    return figure.axes[0].images[0].get_array()


def test_frames_are_green_red_and_neutral_in_their_places():
    row = [Tile(GREY, "q"), Tile(GREY, "a", right=True), Tile(GREY, "b", right=False)]
    pixels = paper(draw_sheet([row, row[:2]], side=20))
    cell, first = 20 + 2 * FRAME, 8
    for column, colour in enumerate((QUERY, RIGHT, WRONG)):
        left = GAP + column * (cell + GAP) + (WIDE if column else 0)
        assert tuple(pixels[first, left]) == colour
        assert tuple(pixels[first + FRAME, left + FRAME]) == (128, 128, 128)
        assert tuple(pixels[first + cell - 1, left + cell - 1]) == colour


def test_images_beside_share_a_frame_and_a_caption_and_tiles_without_a_query_stand_evenly():
    pair = Tile(GREY, "one pair", beside=[GREY // 2])
    figure = draw_sheet([[pair, pair, Tile(GREY, "one")]], side=20, queries=False)
    pixels, wide = paper(figure), 2 * 20 + 3 * FRAME
    assert len(figure.axes[0].texts) == 3
    frame = [60] * FRAME
    for left in (GAP, GAP + wide + GAP):
        assert pixels[8 + FRAME, left : left + wide, 0].tolist() == [*frame, *[128] * 20, *frame, *[64] * 20, *frame]
    assert pixels[8, GAP + 2 * (wide + GAP) + 20 + 2 * FRAME :].min() == 255  # the frame ends with its images


def test_captions_say_right_and_wrong_in_signs_too_and_are_cut():
    row = [Tile(GREY, "q"), Tile(GREY, "0.9\ncat", right=True), Tile(GREY, "x" * 80, right=False)]
    texts = [text.get_text() for text in draw_sheet([row], side=60).axes[0].texts]
    assert texts[:2] == ["q", "✓ 0.9\ncat"]
    assert texts[2].startswith("✗ xxx")
    assert texts[2].endswith("…")
    assert len(texts[2]) < 20


def test_images_keep_their_shape_on_white():
    wide = np.zeros((10, 40, 3), dtype=np.uint8)
    out = fit_square(wide, 20)
    dark = (out == 0).all(2)
    assert dark.sum() == 5 * 20
    assert dark[8:13].all()


def test_a_sheet_without_rows_is_an_error():
    with pytest.raises(UserError, match="at least one row"):
        draw_sheet([])
    with pytest.raises(UserError, match="a query in each"):
        draw_sheet([[Tile(GREY, "q")], []])


def test_a_sheet_stays_of_a_size_that_can_be_looked_at_and_says_what_it_leaves_out():
    row = [Tile(GREY, "q"), *[Tile(GREY, "n", right=True)] * 1000]
    figure = draw_sheet([row] * 100, side=20, title="All")
    assert figure.texts[0].get_text() == "All (the first 30 of 100 queries, the first 16 of 1,000 neighbours)"
    assert len(figure.axes[0].texts) == 30 * 17
    assert paper(figure).shape[:2] == paper(draw_sheet([row[:17]] * 30, side=20, title="All")).shape[:2]
    assert draw_sheet([row[:17]] * 30, side=20, title="All").texts[0].get_text() == "All"
