from __future__ import annotations

import psycopg
import pytest

from tests.support.postgres import Postgres

pytestmark = pytest.mark.postgres


def test_what_was_committed_survives_a_crash_of_the_server(postgres: Postgres) -> None:
    url = postgres.tcp_url(postgres.new_database())
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE facts (fact text)")
        connection.execute("INSERT INTO facts VALUES ('kept')")
    postgres.kill9()
    postgres.start()
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT fact FROM facts").fetchall() == [("kept",)]
