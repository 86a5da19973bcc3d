/* SPDX-License-Identifier: MIT */
/*
 * PostgreSQL through libpq's blocking calls, over a bounded number of connections. libpq knows
 * nothing of tasks: its calls block the thread, and the processor goes to other tasks meanwhile. So
 * it takes at most one more thread for each connection, and with libsennit-hooks none.
 */
#include "http.h"

#include <libpq-fe.h>
#include <memory>
#include <sys/socket.h>
#ifdef HAVE_HOOKS
#	include <sennit/hooks.h>
#endif

static constexpr auto PATIENCE = std::chrono::seconds(5); /* for a free connection */

static std::string address, statement;
static std::unique_ptr<sn::channel<PGconn *>> idle; /* NULL stands for one to be made */

void open_database(const std::string &where, const std::string &query, std::size_t connections)
{
	address = where;
	statement = query;
	idle = std::make_unique<sn::channel<PGconn *>>(connections);
	while (idle->try_send(nullptr))
		;
}

void close_database()
{
	while (auto conn = idle ? idle->try_recv() : sn::failure{ENOENT})
		PQfinish(*conn);
}

void ask_database(response &to, const std::string &parameter)
{
	const auto free = idle ? idle->recv(sn::after(PATIENCE)) : sn::failure{ENOENT};
	if (!free) {
		to.status = idle ? 503 : 404;
		to.body = idle ? "the database is busy\n" : "there is no database: --db\n";
		return;
	}
#ifdef HAVE_HOOKS
	sn_hooks_set(SN_HOOKS_ON); /* from now on, for this task */
#endif
	PGconn *conn = *free;
	char byte;
	/* What a server says unasked is that the connection ends, or something as rare. */
	if (conn && recv(PQsocket(conn), &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0) {
		PQfinish(conn);
		conn = nullptr;
	}
	if (!conn) {
		conn = PQconnectdb(address.c_str());
		PQclear(PQprepare(conn, "", statement.c_str(), 1, nullptr));
	}
	const char *values[] = {parameter.c_str()};
	PGresult *result = PQexecPrepared(conn, "", 1, values, nullptr, nullptr, 0);
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) > 0) {
		(to.body = PQgetvalue(result, 0, 0)) += '\n';
	} else {
		to.status = state && std::string_view(state).starts_with("22") ? 400 : 500;
		to.body = PQerrorMessage(conn);
	}
	PQclear(result);
	if (PQstatus(conn) != CONNECTION_OK) {
		PQfinish(conn);
		conn = nullptr;
	}
	static_cast<void>(idle->try_send(conn)); /* there is room for all */
}
