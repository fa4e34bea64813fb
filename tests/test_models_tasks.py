"""What turns real data into the models' inputs, and their outputs into answers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mcpc.models import builders, inputs, zoo
from mcpc.models.samples import SAMPLES, feeds
from mcpc.models.tasks import file_types, notes, ocr, sentences, turns


def test_every_model_has_a_sample_of_any_size() -> None:
    assert set(SAMPLES) == {*builders.BUILDERS, *zoo.entries()}
    for name, sample in SAMPLES.items():
        if name == "smollm2":  # it takes what llama-mini takes
            continue
        first, again, other = feeds(name), feeds(name, sample.usual), feeds(name, seed=1)
        assert all(np.array_equal(first[key], again[key]) for key in first)
        assert any(not np.array_equal(first[key], other[key]) for key in first)
        assert all(array.dtype in (np.float32, np.int64, np.int32) for array in first.values())


def test_samples_have_the_shapes_that_the_zoo_states() -> None:
    for name, entry in zoo.entries().items():
        if not entry.feed:
            continue
        assert {key: list(array.shape) for key, array in feeds(name).items()} == dict(entry.feed)


# ---- text in images


def test_text_lines_become_rows_of_one_width() -> None:
    short, long = ocr.line("ab"), ocr.line("a much longer line of text")
    batch = ocr.recognition_input([short, long], 1)
    assert batch.shape[:3] == (2, 3, 48) and batch.dtype == np.float32
    assert batch.min() >= -1 and batch.max() <= 1
    used = int(np.ceil(48 * short.shape[1] / short.shape[0]))
    assert (batch[0, :, :, used:] == 0).all() and (batch[0, :, 0, :used] == 1).all()  # a white margin, then nothing
    assert batch[1].min() < -0.9  # ink
    assert ocr.recognition_input([short]).shape[3] == ocr.LINE_WIDTH


def test_pages_are_resized_to_what_the_detector_halves() -> None:
    image, [box] = ocr.page([(10, 10, "word")], 100, 70)
    assert ocr.detection_input(image).shape == (1, 3, 64, 96)
    ink = image.min(2) < 128
    rows, columns = np.flatnonzero(ink.any(1)), np.flatnonzero(ink.any(0))
    assert box.top <= rows[0] and rows[-1] < box.bottom and box.left <= columns[0] and columns[-1] < box.right


def test_boxes_surround_what_a_map_marks() -> None:
    grid = np.zeros((1, 1, 32, 64), np.float32)
    grid[0, 0, 10:14, 8:40] = 0.9
    grid[0, 0, 25:27, 50:60] = 0.35  # above the threshold of a pixel, not of a box
    [box] = ocr.text_boxes(grid, 128, 64)
    core = ocr.Box(16, 20, 80, 28)
    assert box.covers(core) == 1
    grown = 1.6 * 4 * 32 / (2 * (4 + 32)) * 2
    assert core.left - box.left == pytest.approx(grown, abs=1) and box.bottom - core.bottom == pytest.approx(
        grown, abs=1
    )
    assert ocr.text_boxes(np.zeros((1, 1, 32, 32), np.float32), 32, 32) == []


def test_repeated_classes_are_read_once_and_blanks_not_at_all() -> None:
    classes = ["", "a", "b", " "]
    path = np.array([[0, 1, 1, 0, 1, 2, 2, 3, 0, 2], [2, 2, 2, 2, 0, 0, 0, 0, 0, 0]])
    assert ocr.read(np.eye(4, dtype=np.float32)[path], classes) == ["aab b", "b"]


# ---- bytes


def test_file_features_are_both_ends_without_white_space() -> None:
    [row] = file_types.features(b" \n ab\0c\t ")
    assert row.dtype == np.int32 and row.shape == (2048,)
    assert bytes(row[:6].astype(np.uint8)) == b"ab\0c\t " and row[6] == file_types.PADDING
    assert bytes(row[-7:].astype(np.uint8)) == b" \n ab\0c" and row[-8] == file_types.PADDING
    content = bytes(range(256)) * 64
    [row] = file_types.features(content)
    assert bytes(row[:1024].astype(np.uint8)) == content[:4096].lstrip()[:1024]
    assert bytes(row[1024:].astype(np.uint8)) == content[-1024:]
    assert (file_types.features(b"") == file_types.PADDING).all()


def test_file_labels_come_from_the_configuration(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"target_labels_space": ["c", "python"]}))
    assert file_types.labels(path) == ["c", "python"]


# ---- sound


def test_whisper_features_are_those_of_the_package() -> None:
    """Values that pipecat-ai 1.14.0, whose features these are, gives for the same two seconds after six of silence."""
    features = turns.features(inputs.speech(2.0, 7)[0])
    assert features.shape == (1, 80, 800) and features.dtype == np.float32
    expected = {(0, 700): 0.630657, (10, 650): 1.230008, (40, 799): 1.265597, (79, 610): 0.249587, (20, 0): -0.189387}
    for place, value in expected.items():
        assert features[0][place] == pytest.approx(value, abs=1e-4)


def test_a_tone_lies_in_its_mel_band() -> None:
    filters = turns.mel_filters()
    assert filters.shape == (80, 201) and (filters >= 0).all() and (filters.sum(1) > 0).all()
    tone = np.sin(2 * np.pi * 1000 * np.arange(8 * turns.RATE) / turns.RATE).astype(np.float32)
    band = turns.features(tone)[0].mean(1).argmax()
    assert band == filters[:, 25].argmax()  # 1000 Hz is the 25th of 201 bins of 40 Hz
    later = np.concatenate([np.zeros(1000, np.float32), tone])  # only the last 8 seconds count
    np.testing.assert_array_equal(turns.features(later), turns.features(tone))


def test_keys_sound_that_are_on_for_half_the_time() -> None:
    grid = np.zeros((1, 172, 88), np.float32)
    grid[0, :86, 48] = 0.9
    grid[0, :60, 10] = 0.9
    assert notes.sounding(grid) == [69]
    spectrum = np.abs(np.fft.rfft(notes.tone((69,), 1)[0, :, 0]))
    assert spectrum.argmax() * notes.RATE / notes.WINDOW == pytest.approx(440, abs=0.5)


# ---- sentences


def test_sentences_are_padded_and_their_mean_leaves_the_padding_out(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="needs the dev extra")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[PAD]": 0, "a": 1, "b": 2, "?": 3}, unk_token="?"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    words.save(str(tmp_path / "tokenizer.json"))
    tokens = sentences.tokens(["a b c", "b"], tmp_path / "tokenizer.json")
    assert tokens["input_ids"].tolist() == [[1, 2, 3], [2, 0, 0]]
    assert tokens["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]
    assert tokens["token_type_ids"].dtype == np.int64

    states = np.array([[[3, 4], [3, 4], [3, 4]], [[0, 2], [9, 9], [9, 9]]], np.float32)
    np.testing.assert_allclose(
        sentences.embeddings(states, tokens["attention_mask"]), [[0.6, 0.8], [0.0, 1.0]], rtol=1e-6
    )
