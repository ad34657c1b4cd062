"""Transforms: equal to the usual pipeline where that is defined, pure in (seed, epoch, image)."""

import io

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torchvision import transforms as peer

from similis.data.images import apply_affine, prepare, prepared_size
from similis.data.transforms import POLICIES, Policy, augment, draws_of, normalise, policy_of, random_area, turn_square
from similis.values import Preprocessing, UserError
from tests.data.pictures import picture

SMALL = Preprocessing(size=24, resize=32)


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize(("width", "height"), [(90, 60), (41, 97), (20, 30), (32, 32), (33, 57)])
def test_evaluation_equals_torchvision(width, height, interpolation):
    wish = Preprocessing(size=23, resize=32, interpolation=interpolation)
    data = picture(1, width, height)
    ours = augment(prepare(data, resize=32, interpolation=interpolation), policy_of("eval"), wish, ())
    value = normalise(torch.from_numpy(ours.copy())[None], wish)[0]
    theirs = peer.Compose([
        peer.Resize(32, interpolation=getattr(peer.InterpolationMode, interpolation.upper())), peer.CenterCrop(23),
        peer.ToTensor(), peer.Normalize(wish.mean, wish.std),
    ])(Image.open(io.BytesIO(data)))  # fmt: skip
    assert torch.equal(value, theirs)


def test_bn_inception_gets_bgr_from_0_to_255():
    wish = Preprocessing(mean=(104.0, 117.0, 128.0), std=(1.0, 1.0, 1.0), channels="bgr", top=255.0)
    pixel = torch.tensor([10, 20, 30], dtype=torch.uint8).view(1, 1, 1, 3)
    assert normalise(pixel, wish).flatten().tolist() == [30 - 104, 20 - 117, 10 - 128]


def test_other_tops_and_memory_format():
    pixels = torch.randint(0, 256, (2, 4, 4, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    wish = Preprocessing(mean=(0.0,) * 3, std=(1.0,) * 3, top=2.0)
    plain, last = normalise(pixels, wish), normalise(pixels, wish, channels_last=True)
    assert torch.equal(plain, last)
    assert plain.is_contiguous()
    assert last.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(plain, pixels.permute(0, 3, 1, 2) * (2 / 255))


@given(st.integers(1, 400), st.integers(1, 400), st.integers(1, 300), st.sampled_from([1.0, 4.0]))
def test_sizes(width, height, resize, keep):
    new = prepared_size((width, height), resize, keep)
    if keep == 1.0:
        assert min(new) == resize
    else:
        assert min(new) == min(width, height, 4 * resize)
    assert (new[0] >= new[1]) == (width >= height) or new[0] == new[1]
    assert max(new) <= min(new) * max(width, height) / min(width, height) + 1e-9


@given(st.integers(0, 2**64 - 1), st.integers(0, 10**6), st.integers(0, 10**12))
def test_draws_belong_to_seed_epoch_and_image_alone(seed, epoch, image):
    draws = draws_of(seed, epoch, image)
    np.random.random(3)
    assert draws_of(seed, epoch, image) == draws
    others = [draws_of(seed + 1, epoch, image), draws_of(seed, epoch + 1, image), draws_of(seed, epoch, image + 1)]
    assert all(other != draws for other in others)
    assert all(0 <= draw < 1 for draw in draws)


@given(
    st.sampled_from(sorted(POLICIES)), st.integers(0, 50), st.integers(0, 50), st.integers(33, 90), st.integers(33, 90)
)
def test_augmentation_is_pure_and_of_the_right_size(name, epoch, image, width, height):
    policy = policy_of(name)
    pixels = prepare(picture(image, width, height), resize=32, keep=policy.keep)
    before = pixels.copy()
    one = augment(pixels, policy, SMALL, draws_of(1, epoch, image))
    two = augment(pixels.copy(), policy, SMALL, draws_of(1, epoch, image))
    assert one.shape == (24, 24, 3)
    assert one.dtype == np.uint8
    assert (one == two).all()
    assert (pixels == before).all()


def test_crops_reach_every_place_and_flips_are_half():
    pixels = np.arange(26 * 25, dtype=np.uint16).astype(np.uint8)[: 26 * 25].reshape(26, 25, 1).repeat(3, 2)
    pixels[..., 1], pixels[..., 2] = np.arange(26)[:, None], np.arange(25)[None, :]
    crops = [augment(pixels, policy_of("resize-crop"), SMALL, draws_of(0, 0, image)) for image in range(600)]
    flipped = sum(int(crop[0, 0, 2] > crop[0, 1, 2]) for crop in crops)
    assert 230 < flipped < 370
    places = {(int(crop[0, 0, 1]), int(crop[0, :, 2].min())) for crop in crops}
    assert places == {(top, left) for top in range(3) for left in range(2)}


@given(st.integers(1, 300), st.integers(1, 300), st.integers(0, 1000))
def test_random_areas_lie_inside(height, width, image):
    policy = policy_of("random-resized")
    top, left, tall, wide = random_area(height, width, policy, draws_of(0, 0, image))
    assert 0 <= top <= top + tall <= height
    assert 0 <= left <= left + wide <= width
    assert tall >= 1
    assert wide >= 1


def test_random_areas_have_the_declared_range():
    policy = policy_of("random-resized")
    areas = [random_area(400, 400, policy, draws_of(0, 0, image)) for image in range(2000)]
    shares = np.array([tall * wide / 160000 for _, _, tall, wide in areas])
    ratios = np.array([wide / tall for _, _, tall, wide in areas])
    assert shares.min() == pytest.approx(0.08, abs=0.005)
    assert shares.max() > 0.95
    assert ratios.min() == pytest.approx(3 / 4, abs=0.02)
    assert ratios.max() == pytest.approx(4 / 3, abs=0.03)
    assert np.log(ratios).mean() == pytest.approx(0, abs=0.02)


def test_an_area_that_never_fits_falls_back_to_the_centre():
    top, left, tall, wide = random_area(10, 400, Policy("resized", True, scale=(1.0, 1.0)), draws_of(0, 0, 0))
    assert (top, tall, wide) == (0, 10, 13)
    assert left == (400 - 13) // 2


def test_whole_area_resized_equals_torchvision():
    policy = Policy("resized", False, keep=4.0, scale=(1.0, 1.0), ratio=(1.0, 1.0))
    data = picture(3, 50, 50)
    ours = augment(prepare(data, resize=32, keep=4.0), policy, SMALL, draws_of(0, 0, 0))
    theirs = peer.Resize((24, 24))(Image.open(io.BytesIO(data)))
    assert (ours == np.asarray(theirs)).all()


def test_large_jpegs_are_decoded_small_and_look_the_same():
    """Against the whole image resized; decoded at an eighth, below the size wanted, fine detail would be gone."""
    fine = np.random.default_rng(0).integers(0, 256, (400, 533, 3), dtype=np.uint8)
    held = io.BytesIO()
    Image.fromarray(fine).resize((1600, 1200), Image.Resampling.BICUBIC).save(held, "JPEG", quality=95)
    exact = np.asarray(Image.open(held).resize((400, 300), Image.Resampling.BILINEAR)).astype(int)
    quick = prepare(held.getvalue(), resize=300).astype(int)
    blurred = Image.open(held)
    blurred.draft(None, (1, 1))
    coarse = np.asarray(blurred.resize((400, 300), Image.Resampling.BILINEAR)).astype(int)
    assert quick.shape == exact.shape
    assert abs(quick - exact).mean() < 0.25 * abs(coarse - exact).mean()


def test_crop_larger_than_resize_is_refused():
    with pytest.raises(UserError, match="resize=20 is below"):
        augment(np.zeros((20, 20, 3), np.uint8), policy_of("eval"), Preprocessing(size=24, resize=20), ())


def test_unknown_policy_is_answered_with_the_nearest():
    with pytest.raises(UserError, match="did you mean 'resize-crop'"):
        policy_of("resizecrop")


def noise(side):
    return np.random.default_rng(3).integers(0, 256, (side, side, 3), dtype=np.uint8)


def test_an_affine_map_counts_from_the_centres_of_pixels():
    pixels, side = noise(9), 9
    assert np.array_equal(apply_affine(pixels, (1, 0, 0, 0, 1, 0), (0, 0, 0), "bilinear"), pixels)
    moved = apply_affine(pixels, (1, 0, -2, 0, 1, 0), (7, 8, 9), "bilinear")  # two to the right
    assert np.array_equal(moved[:, 3:], pixels[:, 1:-2])
    assert (moved[:, 0] == (7, 8, 9)).all()
    quarter = apply_affine(pixels, (0, 1, 0, -1, 0, side - 1), (0, 0, 0), "bilinear")
    assert np.array_equal(quarter, np.rot90(pixels, -1))


def test_turned_images_hold_their_limits():
    pixels, still = noise(21), Policy(crop="turned", flip=False)
    assert np.array_equal(turn_square(pixels, still, "bilinear", [0.9] * 5), pixels)
    quarter = Policy(crop="turned", flip=False, turn=90.0)
    assert np.abs(turn_square(pixels, quarter, "bilinear", [0, 1.0, 0.5, 0.5, 0.5]).astype(int)
                  - np.rot90(pixels, 1).astype(int)).max() <= 1  # fmt: skip
    shifted = Policy(crop="turned", flip=False, shift=1 / 21)
    right = turn_square(pixels, shifted, "bilinear", [0, 0.5, 0.5, 1.0, 0.5])
    assert np.abs(right[1:-1, 2:-1].astype(int) - pixels[1:-1, 1:-2].astype(int)).max() <= 1
    zoomed = Policy(crop="turned", flip=False, zoom=2.0)
    dot = np.zeros((21, 21, 3), np.uint8)
    dot[8:13, 8:13] = 255
    assert turn_square(dot, zoomed, "bilinear", [0, 0.5, 1.0, 0.5, 0.5]).mean() > 3 * dot.mean()
    assert turn_square(dot, zoomed, "bilinear", [0, 0.5, 0.0, 0.5, 0.5]).mean() < 0.4 * dot.mean()


def test_affine_never_mirrors():
    # A bright left half stays left, whatever is drawn.
    pixels = np.zeros((32, 32, 3), np.uint8)
    pixels[:, :16] = 255
    wish = Preprocessing(size=32, resize=32)
    for image in range(40):
        made = augment(pixels, policy_of("affine"), wish, draws_of(0, 0, image))
        assert made[8:24, 4:12].mean() > made[8:24, -12:-4].mean() + 150
