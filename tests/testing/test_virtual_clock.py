from __future__ import annotations

import asyncio
import threading

import pytest

from trainer_ops.backends.waker import Waker
from trainer_ops.lifecycle.threads import in_thread
from trainer_ops.testing import VirtualClock

START = 1_800_000_000.0


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


def watch() -> Waker:
    return Waker(lambda _: None)


class TestSleeping:
    def test_moves_the_time(self, clock: VirtualClock) -> None:
        clock.sleep(10)
        clock.sleep(2.5)
        assert (clock.now(), clock.slept) == (START + 12.5, [10, 2.5])

    def test_makes_callbacks_at_their_time(self, clock: VirtualClock) -> None:
        heard: list[tuple[str, float]] = []
        clock.after(5, lambda: heard.append(("b", clock.now() - START)))
        clock.after(2, lambda: heard.append(("a", clock.now() - START)))
        clock.after(20, lambda: heard.append(("later", clock.now() - START)))
        clock.sleep(10)
        assert heard == [("a", 2), ("b", 5)]

    def test_a_callback_may_schedule_another(self, clock: VirtualClock) -> None:
        heard: list[float] = []
        clock.after(1, lambda: clock.after(1, lambda: heard.append(clock.now() - START)))
        clock.sleep(3)
        assert heard == [2]

    def test_a_cancelled_timer_never_comes(self, clock: VirtualClock) -> None:
        heard: list[int] = []
        timer = clock.after(1, lambda: heard.append(1))
        timer.cancel()
        timer.cancel()
        clock.sleep(3)
        assert heard == []

    def test_a_watch_ends_it(self, clock: VirtualClock) -> None:
        change = watch()
        clock.after(4, change.notify)
        clock.sleep(10, change)
        clock.sleep(10, change)
        assert clock.slept == [4, 10]

    def test_a_change_before_it_ends_it_at_once(self, clock: VirtualClock) -> None:
        change = watch()
        change.notify()
        clock.sleep(10, change)
        assert clock.slept == [0]

    def test_no_time_and_less(self, clock: VirtualClock) -> None:
        clock.sleep(0)
        clock.sleep(-1)
        assert clock.now() == START

    def test_of_many_threads_ends(self, clock: VirtualClock) -> None:
        threads = [threading.Thread(target=clock.sleep, args=(5,)) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(clock.slept) == 10
        assert clock.now() >= START + 5


class TestAsync:
    def test_sleepers_wake_in_order_of_time(self, clock: VirtualClock) -> None:
        order: list[tuple[int, float]] = []

        async def sleeper(number: int, seconds: float) -> None:
            await clock.asleep(seconds)
            order.append((number, clock.now() - START))

        async def main() -> None:
            await asyncio.gather(sleeper(1, 30), sleeper(2, 10), sleeper(3, 20))

        asyncio.run(main())
        assert order == [(2, 10), (3, 20), (1, 30)]

    def test_time_waits_for_those_who_are_busy_in_threads(self, clock: VirtualClock) -> None:
        seen: list[float] = []
        release = threading.Event()

        async def busy() -> None:
            await in_thread(lambda: release.wait(10))
            seen.append(clock.now() - START)

        async def sleeper() -> None:
            await clock.asleep(5)
            seen.append(clock.now() - START)

        async def main() -> None:
            tasks = asyncio.gather(busy(), sleeper())
            for _ in range(200):
                await asyncio.sleep(0)
            assert clock.now() == START
            release.set()
            await tasks

        asyncio.run(main())
        assert seen == [0, 5]

    def test_a_watch_wakes(self, clock: VirtualClock) -> None:
        change = watch()
        clock.after(3, change.notify)

        async def main() -> None:
            await clock.asleep(10, change)
            await clock.asleep(10, change)

        asyncio.run(main())
        assert clock.slept == [3, 10]

    def test_a_change_before_it_wakes_at_once(self, clock: VirtualClock) -> None:
        change = watch()
        change.notify()
        asyncio.run(clock.asleep(10, change))
        assert clock.slept == [0]

    def test_a_cancelled_sleeper_is_forgotten(self, clock: VirtualClock) -> None:
        async def main() -> None:
            task = asyncio.create_task(clock.asleep(5))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await clock.asleep(1)

        asyncio.run(main())
        assert clock.now() == START + 1

    def test_one_loop_after_another(self, clock: VirtualClock) -> None:
        asyncio.run(clock.asleep(1))
        asyncio.run(clock.asleep(1))
        assert clock.now() == START + 2

    def test_a_thousand_are_deterministic(self) -> None:
        def run() -> list[int]:
            clock, order = VirtualClock(START), list[int]()

            async def sleeper(number: int) -> None:
                for _ in range(3):
                    await clock.asleep(1 + number % 7)
                order.append(number)

            async def main() -> None:
                await asyncio.gather(*(sleeper(number) for number in range(1000)))

            asyncio.run(main())
            return order

        assert run() == run()
