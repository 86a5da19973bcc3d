/* SPDX-License-Identifier: MIT */
/*
 * PostgreSQL through libpq's blocking calls, over a bounded number of connections. libpq knows
 * nothing of tasks: its calls block the thread, and the processor runs other tasks until they
 * return. The server therefore needs at most one more thread for each connection, and none with
 * libsennit-hooks.
 */
#include "http.h"

#include <libpq-fe.h>
#include <memory>
#include <sys/socket.h>

/* A connection; empty if it has not been made yet. */
using connection = std::unique_ptr<PGconn, decltype([](PGconn *conn) { PQfinish(conn); })>;

void ask_database(response &to, const std::string &parameter)
{
	static sn::channel<connection> idle = [] {
		sn::channel<connection> all(static_cast<std::size_t>(options.database_connections));
		while (all.try_send(connection()))
			;
		return all;
	}();
	auto free = idle.recv(std::chrono::seconds(5));
	if (!free)
		return void(to = {.status = 503, .body = "busy\n"});
	connection &conn = *free;
	/* Gives it back, also without memory for the answer. The channel has room for all. */
	const auto end = [](connection *own) { static_cast<void>(idle.try_send(std::move(*own))); };
	const std::unique_ptr<connection, decltype(end)> turn(&conn, end);
	char byte;
	/* Without a query a server sends the end, or something as rare. */
	if (conn && recv(PQsocket(conn.get()), &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0)
		conn.reset();
	if (!conn) {
		conn.reset(PQconnectdb(options.database.c_str()));
		PQclear(PQprepare(conn.get(), "", "select ($1::int8 * $1::int8)::text", 1,
				  nullptr));
	}
	const char *values[] = {parameter.c_str()};
	const std::unique_ptr<PGresult, void (*)(PGresult *)> result(
		PQexecPrepared(conn.get(), "", 1, values, nullptr, nullptr, 0), PQclear);
	if (PQresultStatus(result.get()) == PGRES_TUPLES_OK)
		return void(to.body = PQgetvalue(result.get(), 0, 0) + std::string("\n"));
	const char *state = PQresultErrorField(result.get(), PG_DIAG_SQLSTATE);
	to.status = state && std::string_view(state).starts_with("22") ? 400 : 500;
	to.body = PQerrorMessage(conn.get());
	if (PQstatus(conn.get()) != CONNECTION_OK)
		conn.reset();
}
