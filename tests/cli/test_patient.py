"""Output that nobody reads: it waits in a thread, and never holds up who writes."""

from __future__ import annotations

import os
import threading

import pytest

from orchestrator.cli.patient import WAITING_MAX, PatientStream


def _write_for_ever(stream: PatientStream, text: str) -> None:
    for _ in range(100 * WAITING_MAX):
        stream.write(text)


def test_what_is_written_arrives_in_order() -> None:
    read, written = os.pipe()
    with os.fdopen(read, encoding="utf-8") as reader:
        with os.fdopen(written, "w", encoding="utf-8") as pipe:
            stream = PatientStream(pipe)
            for number in range(100):
                stream.write(f"{number}\n")
            stream.flush()
            assert stream.close()
        assert reader.read().split() == [str(number) for number in range(100)]


def test_a_writer_is_not_held_up_by_a_pipe_that_is_not_read() -> None:
    read, written = os.pipe()
    with os.fdopen(read, "rb") as reader, os.fdopen(written, "w", encoding="utf-8") as pipe:
        stream = PatientStream(pipe)
        line = "x" * 1023 + "\n"
        for _ in range(1000):
            stream.write(line)  # a pipe holds 64 of them
        drained = threading.Thread(target=lambda: reader.read(1024 * 1000))
        drained.start()
        assert stream.close()
        drained.join()


def test_a_reader_that_is_too_far_behind_is_given_up() -> None:
    read, written = os.pipe()
    with os.fdopen(read, "rb") as reader, os.fdopen(written, "w", encoding="utf-8") as pipe:
        stream = PatientStream(pipe)
        with pytest.raises(BrokenPipeError):
            _write_for_ever(stream, "x" * 1000)
        with pytest.raises(BrokenPipeError):
            stream.write("again")
        drained = threading.Thread(target=lambda: reader.read(1000 * 2 * WAITING_MAX))
        drained.start()
        assert not stream.close(), "not all of it was written"
        pipe.close()
        drained.join()


def test_a_reader_that_has_left_breaks_the_stream() -> None:
    read, written = os.pipe()
    os.close(read)
    pipe = os.fdopen(written, "w", encoding="utf-8")
    stream = PatientStream(pipe)
    with pytest.raises(OSError, match="Broken pipe"):
        _write_for_ever(stream, "x\n")
    assert not stream.close()
    with pytest.raises(BrokenPipeError):
        pipe.close()
