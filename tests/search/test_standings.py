from __future__ import annotations

from play import open_storage, play, settings_of

from search.standings import Past


class Seen:
    def __init__(self) -> None:
        self.told: list[object] = []

    def proposed(self, parent, round):
        self.told.append((parent, round))

    def judged(self, attempt):
        self.told.append(attempt.number)


def test_an_index_is_told_the_same_whenever_it_is_asked_for(tmp_path):
    storage = open_storage(tmp_path)
    record = storage.begin("play", {})
    play(storage, record, settings_of())
    early = record.graph.standings(1).index(Seen)
    final = record.graph.standings(4)
    assert final.index(Seen) is early
    assert early.told == storage.record(record.run).graph.standings(4).index(Seen).told
    assert [one.round for one in final.attempts] == sorted(one.round for one in final.attempts)
    assert len(final.attempts) == record.graph.judged


def test_standings_of_an_earlier_round_hold_nothing_of_later_ones(tmp_path):
    storage = open_storage(tmp_path)
    record = storage.begin("play", {})
    play(storage, record, settings_of())
    assert len(record.graph.standings(4).attempts) == record.graph.judged
    assert {one.round for one in record.graph.standings(2).attempts} == {0, 1}


def test_the_past_does_not_grow_with_its_list():
    growing = [1, 2]
    past = Past(growing)
    growing.append(3)
    assert list(past) == [1, 2]
    assert past[-1] == 2
    assert tuple(past[:5]) == (1, 2)
    assert len(past) == 2
