from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time

from trainer_ops.backends.waker import Waker
from trainer_ops.lifecycle.clock import RealClock
from trainer_ops.lifecycle.threads import in_thread, pending_calls


def test_now_is_wall_time() -> None:
    before = time.time()
    assert before <= RealClock().now() <= time.time()


def test_a_change_ends_a_sleep_of_an_hour() -> None:
    watch = Waker(lambda _: None)
    watch.notify()
    RealClock().sleep(3600, watch)
    watch.notify()
    asyncio.run(RealClock().asleep(3600, watch))


def test_a_change_from_another_thread_ends_it_too() -> None:
    watch = Waker(lambda _: None)
    thread = threading.Thread(target=watch.notify)
    thread.start()
    RealClock().sleep(3600, watch)
    thread.join()


def test_no_time_and_less() -> None:
    RealClock().sleep(0)
    RealClock().sleep(-5)
    asyncio.run(RealClock().asleep(-5))


def test_calls_under_way_are_counted() -> None:
    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        release = threading.Event()
        tasks = [asyncio.create_task(in_thread(lambda: release.wait(60))) for _ in range(3)]
        await asyncio.sleep(0)
        busy = pending_calls(loop)
        release.set()
        await asyncio.gather(*tasks)
        return [busy, pending_calls(loop)]

    assert asyncio.run(main()) == [3, 0]


def test_a_forked_process_has_threads_of_its_own() -> None:
    program = """
import asyncio, os, warnings
from trainer_ops.lifecycle.threads import in_thread
warnings.simplefilter("ignore")  # Python 3.12 warns of forking with threads; Airflow does it all the same
call = lambda: asyncio.run(in_thread(os.getpid))
assert call() == os.getpid()
child = os.fork()
if not child:
    os._exit(0 if call() == os.getpid() else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
