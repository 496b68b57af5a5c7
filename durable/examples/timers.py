#!/usr/bin/env python3
"""Arms, moves and cancels timers of a fleet from Python, by the functions of its schema.

Handlers are in Rust: some program with `Durable` and `Postgres` fires what is armed here. It has to
have been started once, since it makes the tables and the functions.

Needs psycopg (3) or psycopg2, and a database by the variable WHEELWORK_POSTGRES
(`host=.. user=.. dbname=..`). Without the variable it says so, and does nothing.

    timers.py                            shows all of it, and leaves nothing behind
    timers.py arm KIND SECONDS TEXT [KEY]
    timers.py move ID SECONDS
    timers.py cancel ID
    timers.py cancel-key KEY
"""

import os
import sys

try:
    import psycopg as driver
except ImportError:
    try:
        import psycopg2 as driver
    except ImportError:
        driver = None

SCHEMA = "wheelwork"


class Timers:
    """The calls, in whatever transaction of yours the cursor is in."""

    def __init__(self, cursor, schema=SCHEMA):
        self.cursor = cursor
        self.schema = schema

    def _call(self, call, values):
        self.cursor.execute(f"SELECT {self.schema}.{call}", values)
        return self.cursor.fetchone()[0]

    def arm(self, kind, seconds, payload, key=None):
        """Arms a timer. With a key: in place of the one that has it. Returns its id."""
        return self._call(
            "wheelwork_schedule(%s, now() + %s * interval '1 second', %s, %s)",
            (kind, seconds, payload, key),
        )

    def move(self, timer, seconds):
        """Gives it another deadline. False: it is too late, or it has ended."""
        return self._call(
            "wheelwork_reschedule(%s::uuid, now() + %s * interval '1 second')",
            (str(timer), seconds),
        )

    def cancel(self, timer):
        """True: its handler is not called, once this is committed.

        Of a timer with a calendar, a run that was handed out may still begin. It is the last one.
        """
        return self._call("wheelwork_cancel(%s::uuid)", (str(timer),))

    def cancel_key(self, key):
        """The same for the timer that has this key."""
        return self._call("wheelwork_cancel_key(%s)", (key,))


def show(timers):
    """Each call once."""
    timer = timers.arm("order.unpaid", 1800, b"4711")
    print(f"armed {timer}")
    print(f"moved: {timers.move(timer, 3600)}")
    print(f"cancelled: {timers.cancel(timer)}")
    print(f"cancelled again: {timers.cancel(timer)}")
    timers.arm("order.unpaid", 1800, b"4712", key="order-4712")
    timers.arm("order.unpaid", 3600, b"4712", key="order-4712")  # in place of the first
    print(f"cancelled by its key: {timers.cancel_key('order-4712')}")
    print(f"cancelled by its key again: {timers.cancel_key('order-4712')}")


def main(arguments):
    database = os.environ.get("WHEELWORK_POSTGRES")
    if not database:
        print("it needs a PostgreSQL: WHEELWORK_POSTGRES='host=.. user=.. dbname=..' says which one")
        return 0
    if driver is None:
        print("it needs a driver: pip install 'psycopg[binary]'", file=sys.stderr)
        return 2
    connection = driver.connect(database)
    try:
        cursor = connection.cursor()
        cursor.execute("SELECT to_regclass(%s) IS NULL", (f"{SCHEMA}.timer",))
        if cursor.fetchone()[0]:
            print(f"there is no schema {SCHEMA}: start a node once, which makes it", file=sys.stderr)
            return 2
        timers = Timers(cursor)
        match arguments:
            case []:
                show(timers)
            case ["arm", kind, seconds, text, *key] if len(key) < 2:
                print(timers.arm(kind, float(seconds), text.encode(), *key))
            case ["move", timer, seconds]:
                print(timers.move(timer, float(seconds)))
            case ["cancel", timer]:
                print(timers.cancel(timer))
            case ["cancel-key", key]:
                print(timers.cancel_key(key))
            case _:
                print(__doc__, file=sys.stderr)
                return 2
        # What is armed and cancelled here is so from now on, with all else of the transaction.
        connection.commit()
        return 0
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
