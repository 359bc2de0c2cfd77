"""Tables of one zone side by side, tables of two zones one after the other: Java has but one zone to write in."""

import threading

from etc_policy.spark.commit_zone import ZoneGate


class Java:
    """What is set in Java, and all that was ever set."""

    def __init__(self):
        self.zone, self.log = "its own", []

    def setter(self, zone):
        def enter():
            self.zone = zone
            self.log.append(zone)
            return lambda: setattr(self, "zone", "its own")

        return enter


def test_it_is_set_while_it_is_held_and_then_as_it_was():
    gate, java = ZoneGate(), Java()
    with gate.hold("UTC", java.setter("UTC")):
        assert java.zone == "UTC"
        with gate.hold("UTC", java.setter("UTC")):
            pass
        assert java.zone == "UTC"
    assert (java.zone, java.log) == ("its own", ["UTC"])


def test_an_error_gives_it_back():
    gate, java = ZoneGate(), Java()
    for _ in range(2):
        try:
            with gate.hold("UTC", java.setter("UTC")):
                raise KeyError
        except KeyError:
            assert java.zone == "its own"


def test_a_setter_that_fails_leaves_the_gate_open():
    gate, java = ZoneGate(), Java()

    def broken():
        raise OSError

    try:
        with gate.hold("UTC", broken):
            raise AssertionError
    except OSError:
        pass
    with gate.hold("LOCAL", java.setter("LOCAL")):
        assert java.zone == "LOCAL"


def test_many_tables_of_two_zones_at_once():
    gate, java, wrong, ready = ZoneGate(), Java(), [], threading.Barrier(12)

    def work(zone):
        ready.wait()
        for _ in range(30):
            with gate.hold(zone, java.setter(zone)):
                wrong.extend(() if java.zone == zone else (java.zone,))

    threads = [threading.Thread(target=work, args=(zone,)) for zone in ("UTC", "LOCAL") * 6]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)
    assert (wrong, java.zone) == ([], "its own")


def test_tables_of_one_zone_do_not_wait_for_each_other():
    gate, java, both = ZoneGate(), Java(), threading.Barrier(2)

    def work():
        with gate.hold("UTC", java.setter("UTC")):
            both.wait(timeout=30)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert (both.broken, java.log) == (False, ["UTC"])
