"""What is forced to the disk in threads: all of it is done when the block ends, and no error is lost."""

from __future__ import annotations

import threading

import pytest

from slalom_bench.errors import StoreError
from slalom_bench.running.forcing import BACKLOG, THREADS, Forcing
from slalom_bench.running.store import RunStore


def test_without_threads_it_is_done_at_once():
    seen = []
    Forcing().do(lambda: seen.append(threading.current_thread()))
    assert seen == [threading.current_thread()]


def test_all_is_done_at_the_end_and_the_backlog_is_bounded():
    forcing, go_on, done = Forcing(), threading.Event(), []
    threading.Timer(0.2, go_on.set).start()

    def work():
        go_on.wait(10)
        done.append(threading.current_thread())

    with forcing.beside():
        for _ in range(BACKLOG):
            forcing.do(work)
        assert not done, "nothing waits for the disk yet"
        forcing.do(work)
        assert go_on.is_set(), "one more than the backlog waits"
    assert len(done) == BACKLOG + 1
    assert 1 < len(set(done)) <= THREADS


def test_an_error_is_raised_though_the_work_went_on():
    def fails():
        raise StoreError("disk full")

    forcing = Forcing()
    with pytest.raises(StoreError, match="disk full"), forcing.beside():
        forcing.do(fails)
    with forcing.beside():
        forcing.do(lambda: None)


def test_a_cell_can_be_given_back_by_another_thread(lab, finished):
    identity = RunStore(finished).cells()[0].identity
    taken = RunStore(finished).taken(identity)
    assert taken.__enter__() is not None
    thread = threading.Thread(target=taken.__exit__, args=(None, None, None))
    thread.start()
    thread.join()
    with RunStore(finished).taken(identity) as again:
        assert again is not None


def test_a_cell_whose_power_went_in_its_first_moment_is_begun_again(finished, tmp_path):
    identity = RunStore(finished).cells()[0].identity
    store = RunStore(tmp_path)
    with store.taken(identity) as cell:
        (cell.path / "cell.json").write_text("")
    assert store.cells() == []
    with store.taken(identity):
        pass
    assert [cell.identity.key for cell in store.cells()] == [identity.key]
