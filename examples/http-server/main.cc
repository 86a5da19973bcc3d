/* SPDX-License-Identifier: MIT */
/*
 * An HTTP/1.1 server: a task for each connection, and plain blocking code in it.
 *
 *	example-http-server --listen 127.0.0.1:8080 --db 'host=127.0.0.1 user=postgres'
 *	curl -i http://127.0.0.1:8080/
 *	curl -i 'http://127.0.0.1:8080/wait?ms=500'
 *	curl -i -d 'some text' http://127.0.0.1:8080/echo
 *	curl -i 'http://127.0.0.1:8080/db?n=7'
 *
 * connection.cc serves a connection, database.cc asks PostgreSQL. This file has the options, what
 * the paths answer, and the shutdown: after SIGTERM or ^C, what is under way has --grace seconds.
 */
#include "http.h"

#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
#ifdef HAVE_TLS
#	include <sennit/tls.hpp>
#endif

namespace
{

void answer(const request &from, response &to)
{
	const auto path = from.path();
	const bool known = path == "/" || path == "/wait" || path == "/echo" || path == "/db";
	const bool posts = path == "/echo";

	if (!known) {
		to = {.status = 404, .body = "not found\n"};
	} else if (posts ? from.method != HTTP_POST
			 : from.method != HTTP_GET && from.method != HTTP_HEAD) {
		to = {.status = 405,
		      .allow = posts ? "POST" : "GET, HEAD",
		      .body = "wrong method\n"};
	} else if (path == "/") {
		to.body = "hello, world\n";
	} else if (path == "/wait") {
		sn_sleep(std::max(0, std::atoi(from.parameter("ms").c_str())) * 1000000ll);
		to.body = "waited\n";
	} else if (path == "/echo") {
		to = {.type = "application/octet-stream", .body = from.body};
	} else {
		ask_database(to, from.parameter("n"));
	}
}

/* ---- options ---- */

bool set(std::string &to, std::string_view text)
{
	to = text;
	return true;
}

template <class T> /* a number, or nanoseconds given as seconds */
bool set(T &to, std::string_view text)
{
	double number = -1;
	const auto end = std::from_chars(text.begin(), text.end(), number);
	const double unit = std::is_same_v<T, std::size_t> ? 1 : 1e9;
	to = static_cast<T>(static_cast<std::int64_t>(number * unit));
	return end.ec == std::errc() && end.ptr == text.end() && number > 0 && number < 1e9;
}

const struct {
	const char *name, *value, *help;
	bool (*set)(server &, const char *);
} OPTIONS[] = {
#define OPTION(name, value, field, help)                                                 \
	{                                                                                \
		name, value, help,                                                       \
			[](server &in, const char *text) { return set(in.field, text); } \
	}
	OPTION("--listen", "ADDRESS", address,
	       "HOST:PORT, unix:PATH; port 0: any (127.0.0.1:8080)"),
	OPTION("--connections", "N", connections, "more are answered with 503 (10000)"),
	OPTION("--header-bytes", "N", header_bytes, "of a request, else 431 (16384)"),
	OPTION("--body-bytes", "N", body_bytes, "of a request, else 413 (1048576)"),
	OPTION("--header-time", "SECONDS", header_time, "for the head of a request, else 408 (10)"),
	OPTION("--body-time", "SECONDS", body_time, "for the body of a request, else 408 (60)"),
	OPTION("--idle-time", "SECONDS", idle_time, "between requests (60)"),
	OPTION("--write-time", "SECONDS", write_time, "for a client to take answers (60)"),
	OPTION("--grace", "SECONDS", grace, "to finish after SIGTERM or SIGINT (10)"),
	OPTION("--tls-cert", "FILE", certificate, "a chain in PEM, to speak TLS (none)"),
	OPTION("--tls-key", "FILE", key, "its key, in PEM (none)"),
	OPTION("--db", "CONNINFO", database, "what /db asks, in libpq's words (none)"),
	OPTION("--db-connections", "N", database_connections, "at most, to the database (16)"),
#undef OPTION
};

/* Whether all was understood; otherwise says what there is. */
bool parse(int argc, char **argv, server &in)
{
	for (int i = 1; i < argc; i += 2) {
		bool understood = false;
		for (const auto &each : OPTIONS)
			if (std::strcmp(each.name, argv[i]) == 0 && i + 1 < argc)
				understood = each.set(in, argv[i + 1]);
		if (understood)
			continue;
		std::printf("usage: example-http-server [OPTION VALUE]...\n");
		for (const auto &each : OPTIONS)
			std::printf("  %-16s %-9s %s\n", each.name, each.value, each.help);
		return false;
	}
	return true;
}

/* ---- from the first connection to the last ---- */

/* From then on each connection begins with TLS. Throws if that is not possible. */
void use_tls(server &in)
{
#ifdef HAVE_TLS
	static sn::tls_config config(SN_TLS_SERVER);
	if (!config.certificate(in.certificate, in.key) || !config.alpn("http/1.1"))
		throw std::runtime_error(sn::tls_last_error());
	in.task_attributes.stack_size = SN_TLS_STACK;
	in.begin = [](sn::stream &on) { return sn::tls_server(on, config).has_value(); };
#else
	throw std::runtime_error("there is no libsennit-tls for " + in.certificate);
#endif
}

/* Until the scope is cancelled. Out of descriptors or memory, accepting pauses by itself. */
int accept_all(server &in, sn_tcp_listener *listener, sn::scope &connections)
{
	static std::atomic<std::size_t>
		open; /* with those that are told 503, which are limited too */
	sn_tcp *accepted;
	int err;

	while ((err = sn_tcp_accept(listener, &accepted)) == 0) {
		sn::stream stream(sn_tcp_stream(accepted));
		if (open >= in.connections + 100)
			continue;
		try {
			const bool refused = ++open > in.connections;
			auto serve = [&in, refused, own = std::move(stream)]() mutable {
				if (in.begin(own))
					serve_connection(in, std::move(own), refused);
				open--;
			};
			connections.go(std::move(serve), in.task_attributes);
		} catch (const std::system_error &) {
			open--; /* there is no memory for a task */
		}
	}
	return err;
}

int serve(server &in)
{
	auto listener = sn::tcp_listener::listen(in.address).value();
	const bool tls = !in.certificate.empty();
	if (tls)
		use_tls(in);
	sn::catch_signal(SIGTERM).value();
	sn::catch_signal(SIGINT).value();
	std::printf("listening on http%s://%s\n", tls ? "s" : "",
		    listener.address().value().c_str());

	sn::scope connections;
	std::optional<sn::scope> accepting(std::in_place);
	accepting->go([&] { return accept_all(in, listener.get(), connections); });
	const auto signal = sn::wait_signal({SIGTERM, SIGINT}); /* also ends when accepting fails */
	std::printf(signal ? "shutting down\n" : "accepting has failed\n");
	accepting.reset(); /* cancels and waits */
	listener.close();
	close_idle(in);
	/* What computes, or blocks its thread, does not notice that it is cancelled. */
	sn::alarm limit([] { _exit(1); });
	limit.set_after(in.grace + std::chrono::seconds(1));
	const bool cut =
		connections.join_until(sn::after(in.grace)).error() == std::errc::timed_out;
	std::printf(cut ? "some connections were cut\n" : "all connections had ended\n");
	close_database();
	return signal ? 0 : 1;
}

} // namespace

int main(int argc, char **argv)
{
	server in;

	std::setvbuf(stdout, nullptr, _IOLBF, 0);
	if (!parse(argc, argv, in))
		return argc == 2 && std::strcmp(argv[1], "--help") == 0 ? 0 : 2;
	in.handler = answer;
	if (!in.database.empty())
		open_database(in.database, "select ($1::int8 * $1::int8)::text",
			      in.database_connections);
	try {
		return sn::run([&] { return serve(in); });
	} catch (const std::exception &error) {
		std::fprintf(stderr, "http-server: %s: %s\n", in.address.c_str(), error.what());
		return 1;
	}
}
